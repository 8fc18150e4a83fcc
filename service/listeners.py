"""The sockets that a service listens on."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain

from service.settings import listed
from swiftlet.errors import InvalidArgumentError

BACKLOG = 2048
_EVERY_ADDRESS = "::"
_SO_BINDTOIFINDEX = 62
_NO_INTERFACE = 2**31 - 1


@contextmanager
def listen(hosts: str, port: int) -> Iterator[list[socket.socket]]:
    """Listen on a port of each of `hosts`, which have commas between them.

    `::` stands for every address, also of IPv4. A name stands for those of its addresses that this
    machine has.

    :param port: 0 stands for any free port, the same for all addresses.
    :raises InvalidArgumentError: When an address is taken or not one of this machine.
    """
    names = listed(hosts)
    names = [_EVERY_ADDRESS] if _EVERY_ADDRESS in names else names
    with ExitStack() as stack:
        listeners: list[socket.socket] = []
        for address in dict.fromkeys(chain.from_iterable(map(_addresses, names))):
            listeners.append(stack.enter_context(_listener(address, port)))
            port = listeners[0].getsockname()[1]
        yield listeners


def _listener(address: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (address, port),
            family=socket.AF_INET6 if ":" in address else socket.AF_INET,
            backlog=BACKLOG,
            dualstack_ipv6=address == _EVERY_ADDRESS and socket.has_dualstack_ipv6(),
        )
    except OverflowError:  # the port after the last one
        reason = "65535 is the last port"
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = "another process listens there; choose another port"
        else:
            reason = os.strerror(error.errno or 0)
    raise InvalidArgumentError(f"cannot listen on {address} port {port}: {reason}")


def _addresses(host: str) -> list[str]:
    """The addresses of `host` that this machine has, or all of them if it has none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        raise InvalidArgumentError(
            f"the host is {host!r}; an address of this machine is expected"
        ) from None
    addresses = [f"{place[0]}" for *_, place in found]
    own = []
    for address in addresses:
        with suppress(InvalidArgumentError), _listener(address, 0):
            own.append(address)
    return own or addresses


def refuse_new_connections(listener: socket.socket) -> None:
    """Refuse new connections; those already open can still be accepted.

    Closing the socket would reset the open ones. Bound to an interface that does not exist, the
    socket gets no new connections. Unlike a packet filter, this needs no privilege.
    """
    with suppress(OSError):  # Linux before 5.7: a connection may still be lost
        listener.setsockopt(socket.SOL_SOCKET, _SO_BINDTOIFINDEX, _NO_INTERFACE)


def address_of(listener: socket.socket) -> str:
    """The address of a service at this socket."""
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

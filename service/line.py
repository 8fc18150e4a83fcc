"""Who is next: a bounded line of requests, in which a batch takes its turns query by query."""

from collections import deque
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from typing import NamedTuple

from service.problems import QueueFullError


@dataclass(slots=True, eq=False)
class Place:
    """A request's place in a line: how many turns it needs, and when they become useless.

    `deadline` and `waiting_since` are readings of `perf_counter` in seconds.
    """

    turns: int
    deadline: float
    begun: int = 0
    waiting_since: float = 0.0


class Turn(NamedTuple):
    """The next work to be done: the number of a place's turn, and how long it stood in line."""

    place: Place
    number: int
    queue_seconds: float


class Line:
    """First come, first served, one turn at a time: who needs more goes back to the end.

    So a batch of 64 holds up a single query by one turn, not by 64. Thread-safe.
    """

    def __init__(self, max_waiting: int) -> None:
        """Make a line in which at most `max_waiting` turns wait."""
        self.max_waiting = max_waiting
        self.waiting = 0
        self._places: deque[Place] = deque()
        self._lock = Lock()

    def join(self, place: Place) -> None:
        """Stand in line.

        :raises QueueFullError: When not all turns of `place` fit into the line.
        """
        with self._lock:
            if self.waiting + place.turns > self.max_waiting:
                raise QueueFullError(
                    f"{self.waiting} queries are waiting and {place.turns} more were asked for; "
                    f"at most {self.max_waiting} may wait"
                )
            self.waiting += place.turns
            place.waiting_since = perf_counter()
            self._places.append(place)

    def next(self) -> Turn | None:
        """Begin the next turn; whose deadline has passed has lost its turns.

        None where nobody waits.
        """
        with self._lock:
            while self._places:
                place = self._places.popleft()
                now = perf_counter()
                if place.deadline <= now:
                    self._forget(place)
                    continue
                turn = Turn(place, place.begun, now - place.waiting_since)
                place.begun += 1
                self.waiting -= 1
                if place.begun < place.turns:
                    place.waiting_since = now
                    self._places.append(place)
                return turn
        return None

    def leave(self, place: Place) -> None:
        """Give up all turns of `place` that have not begun."""
        with self._lock:
            if place.begun < place.turns:
                self._places.remove(place)
                self._forget(place)

    def _forget(self, place: Place) -> None:
        self.waiting -= place.turns - place.begun
        place.begun = place.turns

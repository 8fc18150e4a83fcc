"""The documented definitions of a module, from its source or from the loaded module."""

import ast
import copy
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from types import ModuleType

_PROPERTY_DECORATORS = frozenset(
    {"property", "cached_property", "abstractproperty", "DynamicClassAttribute"}
)
_RIGHTS = re.compile(r"copyright|licen[cs]e", re.IGNORECASE)
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Definition:
    """A public function, class or method with its documentation.

    `name` is qualified inside its module ("JSONDecoder.decode"). `signature` has the parameters in
    parentheses, without "self"; it is None if there is none or it is unknown.
    """

    name: str
    signature: str | None
    documentation: str


def definitions_in_source(tree: ast.Module) -> Iterator[Definition]:
    """The documented public definitions of a module's source, outer before inner."""
    return _in_body(tree.body, "")


def definitions_in_loaded(
    module: ModuleType, names: Collection[str] | None = None
) -> Iterator[Definition]:
    """The documented public definitions of a loaded module without source; nothing is called.

    :param names: The names to include; None means all names that the module defines.
    """
    # Reading an attribute may define another one.
    for name, value in list(vars(module).items()):
        # The original of a hook that a program may have replaced, such as sys.excepthook.
        original = vars(module).get(f"__{name}__", value)
        own = getattr(original, "__module__", None) == module.__name__
        if is_public(name) and (own if names is None else name in names):
            yield from _in_object(name, original)


def documentation(tree: ast.Module) -> str:
    """The docstring of a module, also one that is assigned to `__doc__`."""
    assigned = (
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "__doc__"
        and isinstance(node.value, ast.Constant)
    )
    return ast.get_docstring(tree) or inspect.cleandoc(str(next(assigned, "")))


def first_comment(source: str) -> str:
    """The first paragraph of the comment at the beginning, unless it is about rights."""
    lines = takewhile(lambda line: line.startswith("#"), source.splitlines())
    comment = "\n".join(line.lstrip("#") for line in lines).strip()
    paragraph = " ".join(re.split(r"\n\s*\n", comment)[0].split())
    return "" if _RIGHTS.search(paragraph) else paragraph


def imported_names(
    tree: ast.Module, name: str, *, is_package: bool
) -> Iterator[tuple[str, frozenset[str] | None]]:
    """The modules from which the module `name` imports, and the imported names that it exports.

    None stands for all names; names are exported if the source lists them in `__all__`.
    """
    exported = _exported(tree)
    package = name.split(".") if is_package else name.split(".")[:-1]
    for node in statements(tree.body):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            names = frozenset(alias.name for alias in node.names if alias.asname is None)
            module = ".".join([*base, *filter(None, [node.module])])
            if "*" in names:
                yield module, None
            elif taken := names & exported:
                yield module, taken


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, and those under its conditions, which have the same scope."""
    for statement in body:
        yield statement
        match statement:
            case ast.If():
                yield from statements([*statement.body, *statement.orelse])
            case ast.Try():
                handled = [inner for handler in statement.handlers for inner in handler.body]
                yield from statements([*statement.body, *statement.orelse, *handled])
            case ast.With():
                yield from statements(statement.body)


def is_public(name: str) -> bool:
    """Whether a name is public."""
    return not name.startswith("_")


def _exported(tree: ast.Module) -> frozenset[str]:
    return frozenset(
        inner.value
        for node in statements(tree.body)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for inner in ast.walk(node.value)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    )


def _in_body(body: list[ast.stmt], prefix: str) -> Iterator[Definition]:
    for node in statements(body):
        if not isinstance(node, _Function | ast.ClassDef) or not is_public(node.name):
            continue
        name = prefix + node.name
        if documentation := ast.get_docstring(node):
            yield Definition(name, _signature(node, in_class=bool(prefix)), documentation)
        if isinstance(node, ast.ClassDef):
            yield from _in_body(node.body, f"{name}.")


def _signature(node: _Function | ast.ClassDef, *, in_class: bool) -> str | None:
    if isinstance(node, ast.ClassDef):
        constructors = {
            method.name: method
            for method in statements(node.body)
            if isinstance(method, _Function) and method.name in ("__init__", "__new__")
        }
        constructor = constructors.get("__init__", constructors.get("__new__"))
        return _arguments(constructor, bound=True) if constructor else None
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    if decorators & _PROPERTY_DECORATORS:
        return None
    return _arguments(node, bound=in_class and "staticmethod" not in decorators)


def _arguments(node: _Function, *, bound: bool) -> str:
    arguments = copy.copy(node.args)
    if bound and arguments.posonlyargs:
        arguments.posonlyargs = arguments.posonlyargs[1:]
    elif bound:
        arguments.args = arguments.args[1:]
    return ast.unparse(arguments)


def _in_object(name: str, value: object) -> Iterator[Definition]:
    if not (inspect.isroutine(value) or inspect.isclass(value)):
        return
    documentation = value.__doc__
    if isinstance(documentation, str) and documentation.strip():
        yield Definition(name, _runtime_signature(value), inspect.cleandoc(documentation))
    if inspect.isclass(value):
        # Inherited members are documented in the class that defines them.
        for inner, attribute in vars(value).items():
            if is_public(inner):
                yield from _in_object(f"{name}.{inner}", getattr(value, inner, attribute))


def _runtime_signature(value: Callable[..., object]) -> str | None:
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError, AttributeError):  # a default value that does not exist yet
        return None
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name == "self":
        del parameters[0]
    return str(signature.replace(parameters=parameters))[1:-1]

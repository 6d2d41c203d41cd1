"""Print every argument of `vllm serve` in an unpacked vLLM source tree, without vLLM, torch or any other dependency.

Usage: python argument_probe.py SOURCE_ROOT > arguments.json

Standard library only; run in a process of its own (`python -I`), because it replaces the import system.

How: the release's own parser is built, so that every rule that turns config classes into options is the release's, not
ours. Importing vLLM outright would pull in torch and hundreds of modules, so modules of the tree are *lazy*: asking a
module for a name executes only the top-level statement that binds that name. Packages outside the tree are hollow
classes that can be called, subscripted, subclassed and used as decorators; pydantic, whose dataclasses carry the
defaults, is reduced to the standard library's dataclasses.
"""

import __future__

import argparse
import ast
import builtins
import contextlib
import dataclasses
import enum
import importlib.abc
import importlib.machinery
import json
import re
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TREE = "vllm"
SERVE = "vllm.entrypoints.cli.serve"
# Looks for accelerators by importing their libraries, which here all seem to exist. So: no platform.
PLATFORMS = "vllm.platforms"
# In 0.8: `--flag`, `--flag true` and `--flag false`.
TRUE_FALSE_ACTION = "StoreBoolean"
PARSER_CLASS = "FlexibleArgumentParser"


# --- packages outside the tree -------------------------------------------------------------------------------------


class Hollow(type):
    """Metaclass of stand-ins: any attribute exists, calls give themselves or, as a decorator, what they decorate."""

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], **_options: Any) -> Any:
        return super().__new__(mcs, name, bases, body)

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **_options: Any) -> None:
        super().__init__(name, bases, body)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = hollow(name, cls.__module__)
        setattr(cls, name, made)
        return made

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if "_hollow" not in cls.__dict__:
            return super().__call__(*args, **kwargs)
        decorates = len(args) == 1 and not kwargs and (callable(args[0]) or isinstance(args[0], classmethod))
        return args[0] if decorates else cls

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __contains__(cls, item: Any) -> bool:
        return False

    def __bool__(cls) -> bool:
        return "_hollow" not in cls.__dict__

    def __lt__(cls, other: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __enter__(cls) -> Any:
        return cls

    def __exit__(cls, *exc: object) -> None:
        return None


def hollow(name: str, module: str) -> Any:
    """A stand-in class for `module.name`."""
    return Hollow(name, (), {"_hollow": True, "__module__": module})


class HollowModule(types.ModuleType):
    """A package outside the tree; every public name is a stand-in, submodules are importable."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        made = "0" if name == "__version__" else hollow(name, self.__name__)
        setattr(self, name, made)
        return made


# --- pydantic reduced to dataclasses ---------------------------------------------------------------------------------


class FieldInfo:
    """What `pydantic.Field(…)` returns: only where the default comes from."""

    def __init__(
        self, default: Any = dataclasses.MISSING, *, default_factory: Any = None, init: Any = None, **_: Any
    ) -> None:
        self.default = default
        self.default_factory = default_factory
        self.init = init


class TypeAdapter:
    """Accepts any JSON: the probe asks what kind of text an option takes, not whether it is valid."""

    def __init__(self, _type: Any) -> None:
        pass

    def validate_json(self, text: str) -> Any:
        return json.loads(text)

    def validate_python(self, value: Any) -> Any:
        return value


class BaseModel:
    """Models of old releases; reading one gives the plain value."""

    def __init_subclass__(cls, **_: Any) -> None:
        pass

    @classmethod
    def model_validate(cls, value: Any) -> Any:
        return value

    @classmethod
    def model_validate_json(cls, text: str) -> Any:
        return json.loads(text)


def pydantic_dataclass(cls: Any = None, *, config: Any = None, **kwargs: Any) -> Any:
    """`pydantic.dataclasses.dataclass` without validation."""
    kept = {key: value for key, value in kwargs.items() if key in {"kw_only", "frozen", "eq", "order", "slots", "init"}}

    def decorate(cls: Any) -> Any:
        for name in vars(cls).get("__annotations__", {}):
            value = vars(cls).get(name)
            if isinstance(value, FieldInfo):
                setattr(cls, name, _plain_field(value))
        return quiet_dataclass(cls, **kept)

    return decorate if cls is None else decorate(cls)


_dataclass = dataclasses.dataclass


def quiet_dataclass(cls: Any = None, /, **kwargs: Any) -> Any:
    """A dataclass whose `__post_init__` does nothing: it would look for devices and check combinations of values."""

    def decorate(cls: Any) -> Any:
        made = _dataclass(cls, **kwargs)
        if hasattr(made, "__post_init__"):
            made.__post_init__ = lambda self, *_values: None
        return made

    return decorate if cls is None else decorate(cls)


def _plain_field(info: FieldInfo) -> Any:
    if info.default_factory is not None:
        return dataclasses.field(default_factory=info.default_factory)
    if isinstance(info.default, (list, dict, set)):
        return dataclasses.field(default_factory=lambda: info.default)
    default = None if info.default in (dataclasses.MISSING, ...) else info.default
    return dataclasses.field(default=default)


def _identity_decorator(*_args: Any, **_kwargs: Any) -> Any:
    return lambda function: function


def _stand_ins() -> dict[str, types.ModuleType]:
    """The outside modules whose behaviour the parser depends on."""

    def module(name: str, **names: Any) -> types.ModuleType:
        made = HollowModule(name)
        made.__dict__.update(names)
        return made

    pydantic = {
        "Field": FieldInfo,
        "FieldInfo": FieldInfo,
        "TypeAdapter": TypeAdapter,
        "ConfigDict": dict,
        "ValidationError": type("ValidationError", (ValueError,), {}),
        "SkipValidation": _Transparent,
        "BaseModel": BaseModel,
        "field_validator": _identity_decorator,
        "model_validator": _identity_decorator,
        "field_serializer": _identity_decorator,
        "dataclass": pydantic_dataclass,
    }
    extensions = {name: getattr(typing, name) for name in typing.__all__}
    extensions["TypeVar"] = _type_variable
    extensions.setdefault("TypeIs", typing.TypeGuard)
    extensions.setdefault("deprecated", _identity_decorator)
    extensions.setdefault("override", lambda function: function)
    return {
        "pydantic": module("pydantic", **pydantic),
        "pydantic.fields": module("pydantic.fields", **pydantic),
        "pydantic.dataclasses": module("pydantic.dataclasses", **pydantic),
        "typing_extensions": module("typing_extensions", **extensions),
        "regex": re,
    }


def _type_variable(name: str, *constraints: Any, default: Any = None, **kwargs: Any) -> Any:
    """`TypeVar` with the `default` that the standard library has only from 3.13."""
    return typing.TypeVar(name, *constraints, **kwargs)


class _Transparent:
    """`SkipValidation[T]` is T."""

    def __class_getitem__(cls, item: Any) -> Any:
        return item


# --- lazy modules of the tree ----------------------------------------------------------------------------------------


class LazyNames(dict[str, Any]):
    """Globals of a module of the tree. A missing name is bound by running the statements that bind it."""

    def __init__(self, path: Path, **names: Any) -> None:
        super().__init__(names, __builtins__=builtins)
        self._path = path
        tree = ast.parse(path.read_bytes(), filename=str(path))
        self._binders: dict[str, list[ast.stmt]] = {}
        for statement in (part for whole in tree.body for part in _one_import_each(whole)):
            for name in _bound_names(statement):
                self._binders.setdefault(name, []).append(statement)
        self._done: set[int] = set()
        self._flags = __future__.annotations.compiler_flag if "annotations" in self._binders else 0

    def __missing__(self, name: str) -> Any:
        for statement in self._binders.get(name, ()):
            if id(statement) in self._done:
                continue
            self._done.add(id(statement))
            self._bind_for_class_bodies(statement)
            code = compile(ast.Module([statement], []), str(self._path), "exec", self._flags, dont_inherit=True)
            exec(code, self)  # noqa: S102 - running the release's own statements is the point of the probe
        if name in self.keys():
            return dict.__getitem__(self, name)
        raise KeyError(name)

    def _bind_for_class_bodies(self, statement: ast.stmt) -> None:
        """Class bodies look globals up without asking `__missing__`: bind what they use beforehand."""
        if not isinstance(statement, ast.ClassDef):
            return
        for name in _names_used_now(statement):
            if name in self._binders and name != statement.name and name not in self:
                with contextlib.suppress(KeyError):
                    self[name]

    def binds(self, name: str) -> bool:
        return name in self.keys() or name in self._binders


def _one_import_each(statement: ast.stmt) -> list[ast.stmt]:
    """`from m import a, b` as two statements, so that asking for `a` does not fetch `b`."""
    match statement:
        case ast.ImportFrom(module=module, names=names, level=level):
            singles: list[ast.stmt] = [ast.ImportFrom(module, [alias], level) for alias in names]
        case ast.Import(names=names):
            singles = [ast.Import([alias]) for alias in names]
        case _:
            return [statement]
    return [ast.copy_location(single, statement) for single in singles]


def _bound_names(statement: ast.stmt) -> Iterator[str]:
    """Names that running a top-level statement binds, at any depth outside functions and classes."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name for alias in names)
        case ast.If(test=test, body=body, orelse=orelse):
            parts = orelse if "TYPE_CHECKING" in ast.dump(test) else body + orelse
            yield from (name for part in parts for name in _bound_names(part))
        case ast.Try(body=body, handlers=handlers, orelse=orelse):
            parts = body + orelse + [part for handler in handlers for part in handler.body]
            yield from (name for part in parts for name in _bound_names(part))
        case ast.With(body=body) | ast.For(body=body):
            yield from (name for part in body for name in _bound_names(part))
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id
                # `TABLE[key] = value` completes TABLE.
                elif (
                    isinstance(node, ast.Subscript)
                    and isinstance(node.ctx, ast.Store)
                    and isinstance(node.value, ast.Name)
                ):
                    yield node.value.id


def _names_used_now(node: ast.AST) -> Iterator[str]:
    """Names read when a statement runs, as opposed to when a function in it is called."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    later = node.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else ()
    for child in ast.iter_child_nodes(node):
        if child not in later:
            yield from _names_used_now(child)


class LazyModule(types.ModuleType):
    """A module of the tree; attributes come from its LazyNames, then its own `__getattr__`, submodules."""

    names: LazyNames

    def __getattr__(self, name: str) -> Any:
        names = self.__dict__.get("names")
        if names is None or (name.startswith("__") and not names.binds(name)):
            raise AttributeError(name)
        if names.binds(name):
            return names[name]
        submodule = f"{self.__name__}.{name}"
        if _source(submodule) is not None:
            return importlib.import_module(submodule)
        if names.binds("__getattr__"):
            return names["__getattr__"](name)
        raise AttributeError(f"module {self.__name__} has no {name}")


ROOT = Path()


def _source(fullname: str) -> Path | None:
    base = ROOT.joinpath(*fullname.split("."))
    for candidate in (base / "__init__.py", base.with_name(base.name + ".py")):
        if candidate.is_file():
            return candidate
    return None


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives lazy modules for the tree, stand-ins for everything that is not in the standard library."""

    def __init__(self) -> None:
        self._stand_ins = _stand_ins()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        top = fullname.partition(".")[0]
        if top in sys.stdlib_module_names:
            return None
        package = top != TREE or (source := _source(fullname)) is None or source.name == "__init__.py"
        return importlib.machinery.ModuleSpec(fullname, self, is_package=package)

    def create_module(self, spec: Any) -> types.ModuleType:
        if spec.name in self._stand_ins:
            return self._stand_ins[spec.name]
        if spec.name.partition(".")[0] == TREE and (source := _source(spec.name)) is not None:
            return self._lazy(spec, source)
        return HollowModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run: names are bound when asked for."""

    def _lazy(self, spec: Any, source: Path) -> LazyModule:
        module = LazyModule(spec.name)
        module.__file__ = str(source)
        package = spec.name if spec.submodule_search_locations is not None else spec.parent
        module.names = LazyNames(source, __name__=spec.name, __package__=package, __file__=str(source), __spec__=spec)
        if spec.name == PLATFORMS:
            module.names["current_platform"] = hollow("current_platform", PLATFORMS)
        if spec.submodule_search_locations is not None:
            module.__path__ = [str(source.parent)]
        return module


# --- reading the parser ----------------------------------------------------------------------------------------------


def serve_parser() -> argparse.ArgumentParser:
    """The release's own parser for `vllm serve`."""
    serve = importlib.import_module(SERVE)
    outer = getattr(serve, PARSER_CLASS)(prog="vllm")
    parser = serve.ServeSubcommand().subparser_init(outer.add_subparsers())
    assert isinstance(parser, argparse.ArgumentParser)
    return parser


def describe(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    """One record an option, in the parser's order."""
    deprecated: set[argparse.Action] = getattr(parser, "_deprecated", set())
    return [
        {
            "dest": action.dest,
            "flags": list(action.option_strings),
            "action": type(action).__name__,
            "nargs": action.nargs,
            "kind": _kind(action),
            "choices": _choices(action),
            "default": _plain(action.default),
            "deprecated": action in deprecated or bool(getattr(action, "deprecated", False)),
            "help": (action.help or "").strip(),
        }
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction)
    ]


def _kind(action: argparse.Action) -> str:
    if action.nargs == 0 or type(action).__name__ == TRUE_FALSE_ACTION:
        return "bool"
    scalar = _scalar_kind(action.type)
    many = action.nargs in ("+", "*") or isinstance(action.nargs, int) or isinstance(action, argparse._AppendAction)
    return f"list[{scalar}]" if many else scalar


def _scalar_kind(convert: Any) -> str:
    """What kind of text a converter takes, found by trying it: names of converters say little (`_optional_type`)."""

    def gives(text: str) -> Any:
        try:
            return convert(text)
        except Exception:  # any refusal is an answer
            return None

    if convert is None:
        return "str"
    # A config class takes its own keys only: {} suits them all.
    if not isinstance(gives("{}"), (str, type(None))):
        return "str_or_json" if gives("x") == "x" else "json"
    if gives("auto") == -1:
        return "size_or_auto"
    if isinstance(gives("2k"), int):
        return "size"
    if isinstance(gives("0.5"), float):
        return "float"
    return "int" if isinstance(gives("7"), int) else "str"


def _choices(action: argparse.Action) -> list[Any] | None:
    """The allowed values; None where there are none or they depend on the machine (a stand-in among them)."""
    choices = list(action.choices or ())
    return (
        None if not choices or any(isinstance(choice, Hollow) for choice in choices) else [_plain(c) for c in choices]
    )


def _plain(value: Any) -> Any:
    """A JSON value; an object of a config class, whose defaults are the release's own, becomes "<ClassName>"."""
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value.value, (str, int)) else value.name
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(item) for item in value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return f"<{value.__name__ if isinstance(value, type) else type(value).__name__}>"


def main(root: str) -> None:
    global ROOT  # noqa: PLW0603 - one process, one tree
    ROOT = Path(root)
    sys.meta_path.insert(0, Finder())
    dataclasses.dataclass = quiet_dataclass
    # vLLM reads attribute docstrings only when some argument contains "--help"; an argument that is just that makes
    # some releases leave `--model` out or print their help.
    sys.argv = ["vllm", "probe--help"]
    out = sys.stdout
    sys.stdout = sys.stderr
    parser = serve_parser()
    json.dump(describe(parser), out)


if __name__ == "__main__":
    main(sys.argv[1])

"""Imports point one way (style guide, section 2). Sources are parsed, not imported."""

import ast
import importlib.util
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

CORE, CONNECTORS = "streamddcrp", "streamddcrp_connectors"

# A module may import what stands in a row above its own. Packages of one row may know each other
# as long as no circle comes about.
ROWS = [
    {"errors", "typing", "_version", "numba_inside", "compilation", "roots"}
    | {"array_groups", "lanes", "kernel_cache", "kernel_folders"},
    {"numerics", "validation", "arguments", "contract", "records", "cards", "cached"},
    {"decay", "reachability", "likelihoods", "data", "partitions", "particles", "checkpoint"},
    {"plots"},
    {"estimator"},
    {"models"},
    {"monitor"},
    {""},  # streamddcrp/__init__.py, which gathers the public names
]
ROW = {name: row for row, names in enumerate(ROWS) for name in names}
KERNELS_MAY_IMPORT = {
    "numpy",
    "math",
    f"{CORE}.compilation",
    f"{CORE}.lanes",
    f"{CORE}.numerics",
    f"{CORE}.contract",
}
SHARED_KERNELS = {"likelihoods", "particles", "data"}  # as in the key of the kernel cache


@cache
def sources(package: str) -> dict[str, ast.Module]:
    """Parse all modules of a package: dotted name to syntax tree."""
    spec = importlib.util.find_spec(package)
    in_checkout = Path(__file__).resolve().parents[2] / "connectors" / package
    roots = [in_checkout] if spec is None else map(Path, spec.submodule_search_locations)
    found = {}
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            parts = [package, *path.relative_to(root).with_suffix("").parts]
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


@cache
def all_sources() -> dict[str, ast.Module]:
    return sources(CORE) | sources(CONNECTORS)


def imports(name: str, tree: ast.Module, known: set[str], packages: set[str]) -> Iterator[str]:
    """Yield the modules a module imports, anywhere in it, by their full names.

    ``from a import b`` is a.b where that is a module, else a.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                up = parts[: len(parts) - node.level + (name in packages)]
                base = ".".join([*up, base] if base else up)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full in known else base


@cache
def all_edges() -> list[tuple[str, str]]:
    known = set(all_sources())
    packages = {name.rpartition(".")[0] for name in known} | {CORE, CONNECTORS}
    return [
        (name, target)
        for name, tree in all_sources().items()
        for target in imports(name, tree, known, packages)
    ]


def core_edges() -> list[tuple[str, str]]:
    return [edge for edge in all_edges() if is_in(edge[0], CORE)]


def arrows(wrong: list[tuple[str, str]]) -> str:
    return "; ".join(f"{module} imports {target}" for module, target in sorted(set(wrong)))


def top(module: str) -> str:
    """Name the part of the core a module belongs to: streamddcrp.decay.base is in decay."""
    return module.partition(".")[2].partition(".")[0]


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def test_there_is_something_to_judge():
    assert {CORE, f"{CORE}.errors", f"{CORE}.numerics"} <= set(sources(CORE)) | {CORE}
    assert any(is_in(target, CORE) for _, target in core_edges())


def test_every_part_of_the_package_has_its_row():
    """A new folder must be given its place in the order (ROWS, above)."""
    assert {top(module) for module in sources(CORE)} <= set(ROW)


def test_core_imports_point_one_way():
    wrong = [
        (module, target)
        for module, target in core_edges()
        if is_in(target, CORE)
        and top(module) != top(target)
        and ROW[top(target)] > ROW[top(module)]
    ]
    assert not wrong, arrows(wrong)


def test_no_circles_between_parts_of_the_core():
    graph = defaultdict(set)
    for module, target in core_edges():
        if is_in(target, CORE) and top(module) != top(target):
            graph[top(module)].add(top(target))

    def walk(part: str, path: list[str]) -> None:
        assert part not in path, f"circle of imports: {' -> '.join([*path, part])}"
        for following in sorted(graph[part]):
            walk(following, [*path, part])

    for part in sorted(ROW):
        walk(part, [])


def test_core_does_not_know_the_connectors():
    wrong = [edge for edge in core_edges() if is_in(edge[1], CONNECTORS)]
    assert not wrong, arrows(wrong)


def model_of(module: str) -> str | None:
    """Name the model whose folder a module is in."""
    parts = module.split(".")
    return parts[2] if parts[:2] == [CORE, "models"] and len(parts) > 2 else None


def test_models_never_import_each_other():
    wrong = [
        (module, target)
        for module, target in core_edges()
        if model_of(module) and model_of(target) and model_of(module) != model_of(target)
    ]
    assert not wrong, arrows(wrong)


def test_no_circles_between_modules():
    graph = defaultdict(set)
    for module, target in all_edges():
        if target in all_sources() and target != module:
            graph[module].add(target)
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> None:
        assert module not in path, f"circle of imports: {' -> '.join([*path, module])}"
        if module not in done:
            for following in sorted(graph[module]):
                walk(following, [*path, module])
            done.add(module)

    for module in sorted(all_sources()):
        walk(module, [])


@cache
def public_modules() -> set[str]:
    """Name the modules that the table of public names lists."""
    tree = ast.parse(Path(importlib.util.find_spec(CORE).origin).with_suffix(".pyi").read_text())
    return {f"{CORE}.{node.module}" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def may_know_arrow(module: str) -> bool:
    """Whether a module stands where tables come in or go out."""
    if model_of(module):
        return module in public_modules() or module.endswith(("views", "story_line"))
    return top(module) in {"estimator", "data", "checkpoint", "monitor", "plots"}


def test_libraries_stay_in_their_fields():
    wrong = [
        (module, target)
        for module, target in core_edges()
        if (is_in(target, "pyarrow") and not may_know_arrow(module))
        or (is_in(target, "river") and top(module) not in {"estimator", "models", "monitor"})
        or (is_in(target, "numba") and top(module) not in ROWS[0])
    ]
    assert not wrong, arrows(wrong)


def test_connectors_do_not_know_river():
    """Connectors drive estimators through their own methods."""
    wrong = [edge for edge in all_edges() if is_in(edge[1], "river") and is_in(edge[0], CONNECTORS)]
    assert not wrong, arrows(wrong)


def test_a_run_does_not_know_servers_pages_and_reports():
    """They are sources, sinks and watchers that the command hands to it, or plug-ins."""
    above = [f"{CONNECTORS}.{name}" for name in ("live", "page", "report", "spark", "cli")]
    wrong = [
        (module, target)
        for module, target in all_edges()
        if is_in(module, f"{CONNECTORS}.run") and any(is_in(target, name) for name in above)
    ]
    assert not wrong, arrows(wrong)


def test_core_has_no_network_and_no_processes():
    forbidden = {"socket", "http", "urllib", "subprocess", "multiprocessing", "asyncio", "requests"}
    wrong = [edge for edge in core_edges() if edge[1].partition(".")[0] in forbidden]
    assert not wrong, arrows(wrong)


def is_kernel(module: str) -> bool:
    return "kernels" in module.split(".")


def kernel_home(module: str) -> str:
    """Name the package, or the module, of kernels that a kernel module belongs to."""
    return module.partition(".kernels")[0] + ".kernels"


def kernel_may_import(module: str, target: str) -> bool:
    if target.partition(".")[0] in KERNELS_MAY_IMPORT or target in KERNELS_MAY_IMPORT:
        return True
    if not is_kernel(target):
        return False
    shared = model_of(module) is not None or top(module) in SHARED_KERNELS
    return kernel_home(target) == kernel_home(module) or (shared and top(target) in SHARED_KERNELS)


def test_kernels_import_leaves_only():
    """What a kernel calls is in the digest that names its cache folder."""
    wrong = [
        (module, target)
        for module, target in core_edges()
        if is_kernel(module) and not kernel_may_import(module, target)
    ]
    assert not wrong, arrows(wrong)


def test_leaf_functions_know_nothing_of_the_package():
    leaf = f"{CORE}.numerics"
    wrong = [
        edge
        for edge in core_edges()
        if edge[0] == leaf
        and is_in(edge[1], CORE)
        and edge[1] not in {f"{CORE}.compilation", f"{CORE}.lanes"}
    ]
    assert not wrong, arrows(wrong)


def test_one_module_knows_the_inside_of_numba():
    """And few know that one: what they do is done without them where numba is another."""
    allowed = ("numba", "numba.extending", "llvmlite", "llvmlite.binding")
    wrong = [
        edge for edge in all_edges()
        if edge[1].partition(".")[0] in ("numba", "llvmlite")
        and edge[1] not in allowed and edge[0] != f"{CORE}.numba_inside"
    ]  # fmt: skip
    assert not wrong, arrows(wrong)
    late = {"roots", "kernel_cache", "array_groups"}
    guarded = {f"{CORE}.{name}" for name in [*late, "numba_inside"]}
    wrong = [
        (module, target) for module, target in all_edges()
        if target in guarded and module not in guarded
        and (module, target) != (f"{CORE}.compilation", f"{CORE}.roots")
    ]  # fmt: skip
    assert not wrong, arrows(wrong)


def test_imports_are_resolved():
    """The parser of this file itself: absolute, relative, of names and of modules."""
    known, packages = {"p", "p.a", "p.b", "p.b.c"}, {"p", "p.b"}
    absolute = ast.parse(
        "import numpy.linalg as l\n"
        "from p import a, thing\n"
        "from p.b import c, other\n"
        "def late():\n"
        "    from scipy import sparse\n"
    )
    expected = ["numpy.linalg", "p.a", "p", "p.b.c", "p.b", "scipy"]
    assert list(imports("p.a", absolute, known, packages)) == expected
    relative = ast.parse("from . import c\nfrom .c import x\nfrom ..a import y\n")
    for name in "p.b", "p.b.d":
        assert list(imports(name, relative, known, packages)) == ["p.b.c", "p.b.c", "p.a"]


def test_the_rules_bite():
    kernel = f"{CORE}.models.seqddcrp.kernels.arrival"
    assert is_kernel(kernel)
    for allowed in (
        "numpy.typing",
        f"{CORE}.numerics",
        f"{CORE}.likelihoods.kernels.families",
        f"{CORE}.models.seqddcrp.kernels.batch",
    ):
        assert kernel_may_import(kernel, allowed)
    for refused in "scipy", f"{CORE}.typing", f"{CORE}.models.temporal.kernels.text", "numba":
        assert not kernel_may_import(kernel, refused)
    assert not kernel_may_import(f"{CORE}.partitions.kernels", f"{CORE}.likelihoods.kernels.counts")
    assert model_of(kernel) == "seqddcrp"
    assert model_of(f"{CORE}.models") is None
    assert may_know_arrow(f"{CORE}.models.text.views")
    assert not may_know_arrow(f"{CORE}.models.text.engine")

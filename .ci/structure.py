"""Count the folders, modules and imports of a package, and check in which direction they run.

Usage: python .ci/structure.py [PACKAGE_FOLDER]

Exits with 1, and says why, if modules or folders import each other in a circle, if a module imports from
a later layer (see LAYERS), if the top folder holds more than ten modules, or if an exception is listed
that is no longer needed. Imports inside of functions count; those under `if TYPE_CHECKING:` do not.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path

# The folders and modules at the top of the package: each may import from those before it.
LAYERS = (
    "__init__",  # imports nothing when it is imported: it looks public names up by strings
    "core",
    "compat",
    "findings",
    "declare",
    "settings",
    "cases",
    "global_state",
    "checks",
    "hookspecs",
    "plan",
    "run",
    "harvest",
    "scan",
    "fuzz",
    "strategies",
    "baseline",
    "report",
    "plugin",
)
MOST_AT_THE_TOP = 10

# Imports that break the rules, and why they stay for now: (module, imported module) -> reason.
EXCEPTIONS: Mapping[tuple[str, str], str] = {}

Graph = Mapping[str, Set[str]]


def modules_of(package: Path) -> dict[str, Path]:
    """The modules of a package by dotted name below it; a folder's own is `folder.__init__`."""
    files = sorted(package.rglob("*.py"))
    return {".".join(path.relative_to(package).with_suffix("").parts): path for path in files}


def imports_of(package: Path) -> dict[str, set[str]]:
    """For each module of a package, the modules of the package that it imports."""
    modules = modules_of(package)
    return {
        name: set(_imported(name, ast.parse(path.read_text("utf-8")), package.name, modules))
        for name, path in modules.items()
    }


def _imported(name: str, node: ast.AST, package: str, known: Iterable[str]) -> Iterator[str]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        children: Iterable[ast.AST] = node.orelse
    else:
        children = ast.iter_child_nodes(node)
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _resolved(alias.name.split("."), None, package, known)
    if isinstance(node, ast.ImportFrom):
        start = [package, *name.split(".")[: -node.level]] if node.level else []
        path = [*start, *(node.module.split(".") if node.module else ())]
        for alias in node.names:
            yield from _resolved(path, alias.name, package, known)
    for child in children:
        yield from _imported(name, child, package, known)


def _resolved(
    path: list[str], imported: str | None, package: str, known: Iterable[str]
) -> Iterator[str]:
    """The module that an import loads: the imported name itself, if it is a module."""
    if path[:1] != [package]:
        return
    parts = path[1:]
    candidates = [parts, [*parts, "__init__"]]
    if imported is not None:
        candidates = [[*parts, imported], [*parts, imported, "__init__"], *candidates]
    for candidate in candidates:
        if ".".join(candidate) in known:
            yield ".".join(candidate)
            return


def grouped(graph: Graph, parent: str) -> dict[str, set[str]]:
    """The imports between the modules and folders that stand directly in a folder, `` being the top."""
    prefix = f"{parent}." if parent else ""

    def child(module: str) -> str:
        return prefix + module.removeprefix(prefix).partition(".")[0]

    imports: dict[str, set[str]] = defaultdict(set)
    for module, targets in graph.items():
        if module.startswith(prefix):
            inside = {child(target) for target in targets if target.startswith(prefix)}
            imports[child(module)] |= inside - {child(module)}
    return dict(imports)


def folders_of(graph: Graph) -> list[str]:
    """The folders of the modules and those around them, by dotted name; `` is the top."""
    folders = {""}
    for module in graph:
        parts = module.split(".")
        folders |= {".".join(parts[:depth]) for depth in range(1, len(parts))}
    return sorted(folders)


def circles(graph: Graph) -> list[list[str]]:
    """The groups of nodes that reach each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph.get(node, ()):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                groups.append(sorted(group))

    for node in graph:
        if node not in index:
            visit(node)
    return groups


def floors(graph: Graph) -> int:
    """The number of nodes on the longest chain of imports; a circle counts as one node."""
    home = {node: node for node in graph}
    for group in circles(graph):
        home.update(dict.fromkeys(group, group[0]))
    joined: dict[str, set[str]] = defaultdict(set)
    for node, targets in graph.items():
        joined[home[node]] |= {home[target] for target in targets} - {home[node]}
    heights: dict[str, int] = {}

    def height(node: str) -> int:
        if node not in heights:
            heights[node] = 1 + max(map(height, joined[node]), default=0)
        return heights[node]

    return max(map(height, list(joined)), default=0)


def complaints(graph: Graph, exceptions: Mapping[tuple[str, str], str]) -> list[str]:
    """What is wrong with the imports, a line each."""
    kept = {
        module: {target for target in targets if (module, target) not in exceptions}
        for module, targets in graph.items()
    }
    lines = [f"modules import each other: {', '.join(group)}" for group in circles(kept)]
    for folder in folders_of(kept):
        where = folder.replace(".", "/") or "the top folder"
        for group in circles(grouped(kept, folder)):
            lines.append(f"a circle of imports in {where}: {', '.join(group)}")
    lines += [f"{module} imports {target}, a later layer" for module, target in _upward(kept)]
    top = [module for module in kept if "." not in module]
    unknown = {module.partition(".")[0] for module in kept} - {*LAYERS}
    lines += [f"{name} has no place in LAYERS" for name in sorted(unknown)]
    if len(top) > MOST_AT_THE_TOP:
        lines.append(f"{len(top)} modules at the top, at most {MOST_AT_THE_TOP} allowed: {top}")
    return lines


def _upward(graph: Graph) -> Iterator[tuple[str, str]]:
    for module, targets in graph.items():
        for target in sorted(targets):
            layers = [name.partition(".")[0] for name in (module, target)]
            if all(layer in LAYERS for layer in layers):
                place, imported = map(LAYERS.index, layers)
                if imported > place:
                    yield module, target


def unneeded(graph: Graph, exceptions: Mapping[tuple[str, str], str]) -> list[str]:
    """The exceptions without which nothing is wrong, a line each."""
    wrong = len(complaints(graph, exceptions))
    lines = []
    for arrow in exceptions:
        remaining = {key: reason for key, reason in exceptions.items() if key != arrow}
        if arrow[1] not in graph.get(arrow[0], ()) or len(complaints(graph, remaining)) == wrong:
            lines.append(f"the exception {arrow[0]} -> {arrow[1]} is no longer needed: remove it")
    return lines


def table(graph: Graph) -> list[str]:
    """A line a folder: its modules, and the imports inside of it, out of it and into it."""
    rows = [("folder", "modules", "inside", "out", "in")]
    for folder in folders_of(graph):
        modules = {module for module in graph if module.rpartition(".")[0] == folder}
        arrows = [(module, target) for module in graph for target in graph[module]]
        inside = sum(module in modules and target in modules for module, target in arrows)
        out = sum(module in modules and target not in modules for module, target in arrows)
        into = sum(module not in modules and target in modules for module, target in arrows)
        name = folder.replace(".", "/") or "(top)"
        rows.append((name, str(len(modules)), str(inside), str(out), str(into)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def main() -> int:
    """Print the counts and what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    default = Path(__file__).parents[1] / "pytest_customop"
    parser.add_argument("package", nargs="?", type=Path, default=default)
    package = parser.parse_args().package
    graph = imports_of(package)
    folders = folders_of(graph)
    arrows = sum(map(len, graph.values()))
    between = grouped(graph, "")
    print("\n".join(table(graph)))
    print(
        f"\n{len(folders)} folders, {len(graph)} modules, {arrows} imports, {floors(graph)} floors;"
        f" at the top {len(between)} folders and modules, {sum(map(len, between.values()))} imports,"
        f" {floors(between)} floors"
    )
    wrong = [*complaints(graph, EXCEPTIONS), *unneeded(graph, EXCEPTIONS)]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

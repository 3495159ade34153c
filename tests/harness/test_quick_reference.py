"""docs/tilelang-quick-reference.md is right for the installed TileLang: each line does what it says."""

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tilelang
import tilelang.language as T
import torch

from tilecheck.simulator import simulate
from tilecheck.tracing import tracing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tilelang-quick-reference.md").read_text()
SECTIONS = {
    title: re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for title, text in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
FRAME, CLUSTERS, OUTSIDE = "A program", "Clusters", "Outside a program"
PLACE = "..."
TENSORS = {"s": "S", "z": "Z", "r": "R"}  # tiles, and where the frame stores them at its end


@pytest.fixture(autouse=True)
def asserts_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assertions are left out of what is traced where there is no CUDA."""
    monkeypatch.setattr("tilelang.cuda.debug._IS_CUDA_AVAILABLE", True)


class Entry:
    """A statement of a section.  torch: what its comment says that comes out, as code; None: it says none."""

    def __init__(self, section: str, number: int, code: str) -> None:
        self.section, self.code = section, code
        self.id = f"{section.split()[0].lower()}-{number}"
        self.comment = code.splitlines()[0].partition(" # ")[2].strip()
        self.torch = _as_torch(self.comment.partition(";")[0])


def _as_torch(text: str) -> str | None:
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    return text if isinstance(statement, ast.Assign | ast.AugAssign) else None


def entries() -> Iterator[Entry]:
    for section, blocks in SECTIONS.items():
        if section in (FRAME, CLUSTERS, OUTSIDE):
            continue
        for block in blocks:
            lines = block.splitlines()
            for number, statement in enumerate(ast.parse(block).body, 1):
                code = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
                yield Entry(section, number, code)


ENTRIES = list(entries())


def traced(folder: Path, code: str, prelude: str = "") -> Any:
    """The page's program with `code` in its place, traced from a file, as TileLang wants its source."""
    (frame,) = SECTIONS[FRAME]
    (place,) = [line for line in frame.splitlines() if line.strip().startswith(PLACE)]
    indent = " " * (len(place) - len(place.lstrip()))
    inside = "\n".join(indent + line for line in code.splitlines())
    return module_of(folder, prelude + frame.replace(place, inside)).program


def module_of(folder: Path, code: str) -> Any:
    text = f"import tilelang\nimport tilelang.language as T\n\n\n{code}"
    path = folder / "page.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"page_{abs(hash(text))}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with tracing():
        spec.loader.exec_module(module)
    return module


def lowered(program: Any) -> str:
    """The CUDA source."""
    with (target := tilelang.tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})):
        return str(tilelang.lower(program, target=target).kernel_source)


def tensors() -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    X, Y = (torch.randint(-4, 5, (64, 64), generator=rng).half() for _ in range(2))
    zeros = {"R": torch.zeros(64), "S": torch.zeros(64, 64).half(), "Z": torch.zeros(64, 64)}
    return {"X": X, "Y": Y, **zeros}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_line(entry: Entry, tmp_path: Path) -> None:
    program = traced(tmp_path, entry.code)
    given = tensors()
    said: list[str] = []
    simulate(program, list(given.values()), tell=said.append)
    if entry.torch is not None:
        X, Y = given["X"], given["Y"]
        names = {"torch": torch, "X": X, "Y": Y, "s": X.clone(), "t": Y.clone(), "x": X.float()}
        names |= {"z": torch.zeros(64, 64), "r": torch.zeros(64)}
        before = {name: value.clone() for name, value in names.items() if name in TENSORS}
        exec(entry.torch, names)  # the page's own words
        changed = entry.torch.split()[0]
        if changed in TENSORS:
            assert not torch.equal(names[changed], before[changed]) or changed == "s", "nothing came out"
        else:
            assert changed == "x"
            program = traced(tmp_path, f"{entry.code}\nT.copy(x, z)")
            simulate(program, list(given.values()))
            names["z"] = names["x"]
        for tile, tensor in TENSORS.items():
            torch.testing.assert_close(given[tensor], names[tile], rtol=1e-6, atol=1e-6)
    if entry.code.startswith("T.print"):
        assert said


@pytest.mark.parametrize("section", [title for title in SECTIONS if title not in (FRAME, CLUSTERS, OUTSIDE)])
def test_section_lowers(section: str, tmp_path: Path) -> None:
    code = "\n".join(entry.code for entry in ENTRIES if entry.section == section)
    assert "__global__" in lowered(traced(tmp_path, code))


def test_blocks_of_a_cluster_exchange_what_they_have(tmp_path: Path) -> None:
    (code,) = SECTIONS[CLUSTERS]
    exchange = module_of(tmp_path, code).exchange
    X, Y = torch.randn(2, 64), torch.zeros(2, 64)
    simulate(exchange, [X, Y])
    assert torch.equal(Y, X.flip(0) - X)
    source = lowered(exchange)
    assert "tma_store_cluster" in source and "cluster_sync" in source


def test_atomic_add_adds_up(tmp_path: Path) -> None:
    (entry,) = [entry for entry in ENTRIES if "atomic_add" in entry.code]
    given = tensors()
    simulate(traced(tmp_path, f"{entry.code}\nT.copy(R, r)"), list(given.values()))
    torch.testing.assert_close(given["R"], given["X"].float().sum(1))


def test_comments_that_look_like_torch_are_checked() -> None:
    loose = [entry.id for entry in ENTRIES if re.search(r"^\w+ \+?= ", entry.comment) and not entry.torch]
    assert loose == []
    assert sum(entry.torch is not None for entry in ENTRIES) >= 25


def test_what_the_kernels_use_is_on_the_page() -> None:
    used = set()
    for file in (ROOT / "kernels").glob("*.py"):
        used |= set(re.findall(r"\bT\.([A-Za-z_]\w*)", file.read_text()))
    on_page = set(re.findall(r"\bT\.([A-Za-z_]\w*)", PAGE))
    assert used - on_page == set()
    assert {name for name in on_page if not hasattr(T, name)} == set()


def test_prints_and_assertions_are_in_the_cuda_source(tmp_path: Path) -> None:
    for line, function in (
        ("T.print(z)", "debug_print_buffer_value"),
        ("T.print(r[0], msg='it')", "debug_print_var"),
    ):
        assert function in lowered(traced(tmp_path, line))
    (entry,) = [entry for entry in ENTRIES if "device_assert" in entry.code]
    assert "r is negative" in lowered(traced(tmp_path, entry.code))


# Outside a program


def outside() -> list[ast.stmt]:
    (block,) = SECTIONS[OUTSIDE]
    return ast.parse(block).body


def test_lines_that_need_no_gpu_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"program": traced(tmp_path, "pass"), "tilelang": tilelang}
    statements = outside()
    first = next(i for i, each in enumerate(statements) if "tilelang.compile" in ast.unparse(each))
    exec(compile(ast.Module(statements[:first], []), "page", "exec"), names)
    shown = capsys.readouterr().out
    assert "T.prim_func" in shown and "__global__" in shown


def test_lines_that_need_a_gpu_have_the_parameters_that_they_name() -> None:
    from tilelang.jit.kernel import JITKernel
    from tilelang.profiler import Profiler

    methods = {"get_kernel_source": JITKernel, "get_profiler": JITKernel, "do_bench": Profiler}
    seen = set()
    for call in (
        node for line in outside() for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Call)
    ):
        if not isinstance(call.func, ast.Attribute):
            continue
        name = call.func.attr
        of_module = isinstance(call.func.value, ast.Name) and call.func.value.id == "tilelang"
        function = getattr(tilelang if of_module else methods.get(name, object), name, None)
        if name in ("script", "Target"):
            continue  # TVM's; another test runs them
        assert function is not None, name
        wanted = inspect.signature(function).parameters
        assert {keyword.arg for keyword in call.keywords} <= wanted.keys(), name
        seen.add(name)
    assert {"compile", "jit", "autotune", "do_bench", "disable_cache"} <= seen


def test_options_and_variables_exist() -> None:
    from tilelang.env import env
    from tilelang.transform import PassConfigKey

    options = re.findall(r"`(tl\.\w+)`", PAGE)
    assert options
    assert set(options) <= {key.value for key in PassConfigKey}
    for variable in re.findall(r"\b((?:TL|TILELANG)_[A-Z_]+)", PAGE):
        assert hasattr(env, variable), variable

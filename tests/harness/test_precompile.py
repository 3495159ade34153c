"""The pool of compiling processes, with a compiler that writes down what it got."""

import os
import textwrap
from pathlib import Path

import pytest

from tilecheck.precompile import Job, precompile

SPECS = """
    import os
    from pathlib import Path

    from tilecheck import launch
    from tilecheck.launch import CompileError
    from tilecheck.spec import Case, KernelSpec


    def program(n, dtype):
        import tilelang.language as T

        @T.prim_func
        def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype)):
            with T.Kernel(1, threads=128):
                T.copy(X, Y)

        return main


    def compile_program(program, target):
        n = program.case.dims["n"]
        if n == 13:
            raise CompileError("copy-unlucky: does not compile for sm_90a")
        if n == 17:
            os._exit(9)
        Path({folder!r}, f"{{n}}-{{target['arch']}}").write_text(str(os.getpid()))


    launch.compile_program = compile_program
    SPEC = KernelSpec(
        "copy",
        program,
        lambda X: X,
        [Case(f"n{{n}}", {{"n": n}}, "float32", why="x") for n in (13, 16, 17, 32, 64)],
    )
"""


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that compiles are written down in; the module `specs_to_compile` is importable."""
    (tmp_path / "specs_to_compile.py").write_text(textwrap.dedent(SPECS).format(folder=str(tmp_path)))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def compiled(*cases: str) -> dict[str, str | None]:
    jobs = [Job("copy", case) for case in cases]
    target = {"kind": "cuda", "arch": "sm_90a"}
    done = dict(precompile(["specs_to_compile"], jobs, "sm_90a", target, processes=2))
    return {job.case: done[job] for job in jobs}


def test_all_are_compiled_elsewhere_and_errors_come_back(specs: Path) -> None:
    assert compiled("n16", "n13", "n32") == {
        "n16": None,
        "n13": "copy-unlucky: does not compile for sm_90a",
        "n32": None,
    }
    assert int((specs / "16-sm_90a").read_text()) != os.getpid()


def test_a_job_that_ends_its_process_fails_alone(specs: Path) -> None:
    errors = compiled("n17", "n64", "n13", "n16")
    assert "BrokenProcessPool" in (errors.pop("n17") or "")
    assert errors == {"n64": None, "n13": "copy-unlucky: does not compile for sm_90a", "n16": None}


def test_what_cannot_be_loaded_is_told(specs: Path) -> None:
    ((_, error),) = precompile(["no_such_module"], [Job("copy", "n16")], "sm_90a", {})
    assert error is not None and "no_such_module" in error


def test_nothing_to_compile() -> None:
    assert compiled() == {}

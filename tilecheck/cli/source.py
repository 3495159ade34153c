"""Print what a kernel becomes on its way to the GPU, for reading: nothing but the text on standard output."""

import argparse

from tilecheck.cli.failing import BadInput
from tilecheck.cli.output import note, note_trouble_of_cache, show, stdout_kept
from tilecheck.cli.selecting import add_one, add_root, one_of

_FORMS = {
    "traced": "the program as it was traced, before any pass of the compiler",
    "tir": "the device functions after lowering",
    "cuda": "the CUDA source (the default)",
    "ptx": "the PTX of nvcc",
    "sass": "the disassembled machine code",
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_one(parser)
    forms = parser.add_mutually_exclusive_group()
    for form, line in _FORMS.items():
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=line)
    parser.set_defaults(form="cuda")
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    with stdout_kept():
        text, error = _text(arguments)
    if error is not None:
        note(f"tilecheck source: {error}")
        return 1
    show(text)
    return 0


def _text(arguments: argparse.Namespace) -> tuple[str, str | None]:
    """The text that was asked for, or why the compiler does not give it."""
    from tilecheck.codegen import CodegenError, artifacts_of, lower
    from tilecheck.codegen.toolchain import NoToolchain
    from tilecheck.program import build_program

    spec, case, arch, schedule = one_of(arguments)
    try:
        program = build_program(spec, case, arch, schedule)
        if arguments.form == "traced":
            return str(program.prim_func.script(show_meta=False)), None
        if arguments.form in ("tir", "cuda"):
            return str(getattr(lower(program), arguments.form)), None
        note_trouble_of_cache()
        return str(getattr(artifacts_of(program), arguments.form)), None
    except (CodegenError, ValueError) as error:
        return "", f"{spec.test_id(case)} on {arch.name}: {error}"
    except NoToolchain as error:
        raise BadInput(str(error)) from error

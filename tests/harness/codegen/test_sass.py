import pytest

from tilecheck.codegen import sass

# As nvdisasm 13.2 prints them, one of each form.
LISTING = """\
\t.target\tsm_90a
.text.main_kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/                   STG.E desc[UR4][R2.64+0x10], R7 ;
.L_x_1:
        /*0030*/              @!UP1 UTMALDG.2D [UR8], [UR4] ;
        /*0040*/                   @P2 BRA `(.L_x_1) ;
        /*1000*/                   EXIT ;
"""


def test_instructions_come_without_addresses() -> None:
    assert list(sass.instructions(LISTING)) == [
        "LDC R1, c[0x0][0x28]",
        "@!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64]",
        "STG.E desc[UR4][R2.64+0x10], R7",
        "@!UP1 UTMALDG.2D [UR8], [UR4]",
        "@P2 BRA `(.L_x_1)",
        "EXIT",
    ]


@pytest.mark.parametrize(
    ("instruction", "family"),
    [
        ("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4].tnspB, R24, !UPT", "HGMMA"),
        ("HMMA.16816.F32 R4, R8, R12, R4", "HMMA"),
        ("UTCHMMA gdesc[UR6], gdesc[UR4], tmem[UR8], tmem[UR10], idesc[UR11], UP0", "UTCMMA"),
        ("LDG.E R4, desc[UR4][R2.64]", "LDG.32"),
        ("LDG.E.U16.CONSTANT R4, desc[UR4][R2.64]", "LDG.16"),
        ("LDG.E.S8 R4, desc[UR4][R2.64]", "LDG.8"),
        ("@P1 LDG.E.64 R4, desc[UR4][R2.64]", "LDG.64"),
        ("LDG.E.ENL2.256.CONSTANT R4, R8, desc[UR4][R2.64]", "LDG.256"),
        ("STG.E.128 desc[UR4][R2.64], R4", "STG.128"),
        # The modifier that names a line of L2 is not the width of the copy.
        ("LDGSTS.E.BYPASS.LTC128B.128 [R5], desc[UR4][R2.64]", "LDGSTS.128"),
        ("LDGSTS.E.LTC128B [R5], desc[UR4][R2.64]", "LDGSTS.32"),
        ("LDSM.16.MT88.4 R4, [R5]", "LDSM"),
        ("MUFU.EX2 R4, R5", "MUFU.EX2"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "BAR"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4], R5", "SYNCS"),
        ("LDL.64 R4, [R1]", "LDL"),
        ("STL [R1+0x8], R4", "STL"),
        ("LDC R1, c[0x0][0x28]", None),  # not LD
        ("{ HFMA2 R1, R2, R3, R4", "HFMA2"),
        ("NOP", None),
    ],
)
def test_family(instruction: str, family: str | None) -> None:
    assert sass.family(instruction) == family


def test_counts_are_sorted_and_hold_the_total() -> None:
    assert list(sass.counts(sass.instructions(LISTING)).items()) == [
        ("BRA", 1),
        ("LDG.128", 1),
        ("STG.32", 1),
        ("UTMALDG", 1),
        ("total", 6),
    ]


def test_digest_heeds_instructions_and_not_addresses() -> None:
    moved = LISTING.replace("/*0010*/", "/*0ff0*/")
    other = LISTING.replace("R4, desc[UR4][R2.64] ;", "R4, desc[UR4][R3.64] ;")

    def digest(listing: str) -> str:
        return sass.digest(sass.instructions(listing))

    assert digest(moved) == digest(LISTING) != digest(other)

# SPDX-License-Identifier: Apache-2.0
"""Names and values that a shell, a parser or a terminal could take for something else."""

HOSTILE = (
    *("--all", "-h", "--help", "--", "--trait=CUSTOM_A"),
    *("a b", "$(touch made)", "`touch made`", "a;touch made", "$HOME \\ \\\\ ' ! *"),
    *("it's", "'; touch made; '", 'say "x"', "a\ntouch made\n", "line\nfeed\n"),
    *("\x1b[2J\x07", "\u202egnp\u200b", "\\", "\\033'$(touch made)\n", "*", "~", "#", "ä\x80é"),
    # Like a UUID, and like one that was written by hand.
    *("00000000-fb85-4080-9306-058b4c915e3f", "00000000FB8540809306058B4C915E3F"),
    "",
)

"""Tables as aligned text, for terminals and logs."""

from collections.abc import Collection, Sequence


def text_table(lines: Sequence[Sequence[str]], *, right: Collection[int]) -> str:
    """Return an aligned table without rules, which `grep` and `awk` like.

    Args:
        lines: the headings, then the cells of each row.
        right: the columns that are aligned to the right, counted from 0.
    """
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]

    def padded(column: int, cell: str) -> str:
        return cell.rjust(widths[column]) if column in right else cell.ljust(widths[column])

    return "\n".join("  ".join(padded(*cell) for cell in enumerate(line)).rstrip() for line in lines)

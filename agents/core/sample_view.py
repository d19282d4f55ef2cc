"""One answer on a terminal: a line per step, its advantage as a number and as a colour.

The scale runs from orange (the step made success less likely) over no colour to blue (more
likely), which colour-blind readers can tell apart; the signed number stands beside every step.
"""

from __future__ import annotations

import math

from rich.panel import Panel
from rich.style import Style
from rich.table import Table
from rich.text import Text

from agents.core.records import Sample
from agents.core.views import inert

_BORDER_LINES = 2
_FADED = 0.1
# From weak to strong; every background has its own text colour, so that it reads on any theme.
_BLUE = (
    "#000000 on #d1e5f0",
    "#000000 on #92c5de",
    "#000000 on #4393c3",
    "#ffffff on #2166ac",
)
_ORANGE = (
    "#000000 on #fee0c4",
    "#000000 on #fdb863",
    "#000000 on #f08a24",
    "#ffffff on #a44f05",
)
_SMALLEST_SCALE = 0.1


def advantage_style(advantage: float, scale: float) -> Style:
    """Returns the style of a step: blue above 0, orange below, stronger the further away.

    Args:
        advantage: The step's advantage, in units of reward.
        scale: The advantage of the strongest colour, > 0.

    >>> str(advantage_style(0.5, 0.5)), str(advantage_style(-0.2, 0.5)), str(advantage_style(0, 1))
    ('#ffffff on #2166ac', '#000000 on #fdb863', 'none')
    """
    share = min(1.0, abs(advantage) / scale) if math.isfinite(advantage) else 0.0
    if share < _FADED:
        return Style.null()
    shades = _BLUE if advantage > 0 else _ORANGE
    return Style.parse(shades[min(len(shades) - 1, int(share * len(shades)))])


def sample_height(sample: Sample) -> int:
    """Returns how many lines the whole answer takes, question and border included."""
    return _BORDER_LINES + 2 + len(sample.steps)


def draw_sample(sample: Sample, iteration: int, height: int) -> Panel:
    """Returns the answer's panel, cut to ``height`` lines: steps in the middle are left out."""
    finite = [abs(advantage) for advantage in sample.advantages if math.isfinite(advantage)]
    scale = max([_SMALLEST_SCALE, *finite])
    grid = Table.grid(padding=(0, 1, 0, 0), expand=True)
    grid.add_column(justify="right", no_wrap=True, min_width=6)
    if sample.values:
        grid.add_column(justify="right", no_wrap=True, min_width=5)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    heading = ["adv.", "value"] if sample.values else ["adv."]
    grid.add_row(*(Text(cell, style="dim") for cell in heading), _one_line(sample.question, "dim"))
    shown = _places(len(sample.steps), max(1, height - _BORDER_LINES - 1))
    for place in shown:
        if place is None:
            gap = f"... {len(sample.steps) - len(shown) + 1} more steps"
            grid.add_row(*([""] * len(heading)), Text(gap, style="dim"))
            continue
        advantage = sample.advantages[place]
        cells = [Text(f"{round(advantage, 2) + 0.0:+.2f}")]  # + 0.0: never -0.00
        if sample.values:
            cells.append(Text(f"{sample.values[place]:.2f}", style="dim"))
        style = advantage_style(advantage, scale)
        grid.add_row(*cells, _one_line(sample.steps[place], style))
    title = f"an answer of iteration {iteration}: reward {sample.reward:.2f}"
    if sample.reference:
        title += f", reference {inert(sample.reference)}"
    return Panel(grid, title=Text(title), title_align="left", subtitle=_legend())


def _one_line(text: str, style: str | Style) -> Text:
    return Text(inert(text), style=style, no_wrap=True, overflow="ellipsis")


def _places(steps: int, room: int) -> list[int | None]:
    """Returns which steps are shown, None for those left out.

    >>> _places(3, 3), _places(9, 4)
    ([0, 1, 2], [0, 1, None, 8])
    """
    if steps <= room:
        return list(range(steps))
    last = [steps - 1] if room >= 3 else []
    return [*range(room - len(last) - 1), None, *last]


def _legend() -> Text:
    legend = Text()
    for text, style in (("worse", _ORANGE[1]), ("no change", ""), ("better", _BLUE[1])):
        legend.append(f" {text} ", style=style)
    return legend

"""The policies of the math grader: what is convention and not mathematics, each an option."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    r"""Conventions of grading; the defaults are what the documentation calls the house rules.

    Attributes:
        percent_optional: ``35\%`` answers a gold of 35 (a gold of ``35\%`` always takes both
            35 and 0.35).
        degrees_convert: ``30^\circ`` equals ``\pi/6``.
        money_converts: ``\$0.75`` equals 75 cents.
        decimal_comma: ``2,5`` may be 2.5 where it cannot be a thousands separator.
        drop_label: ``x = 5`` answers 5 and the other way round; variables that differ conflict.
        drop_parentheses: ``3,-5`` answers the point ``(3,-5)``, and ``(1,2,3)`` the list ``1,2,3``.
        set_of_one: ``\{2\}`` equals 2.
        assignments_as_points: ``x=1, y=2`` equals ``(1,2)``, in the order of the names.
        comma_unions: ``(1,2),(3,4)`` equals ``(1,2)\cup(3,4)``.
        drop_base: ``2021`` answers ``2021_3``: the question fixes the base.
        ratios_by_value: ``6:10`` equals ``3:5``.
        solved_inequalities: ``x\ge 3`` equals ``[3,\infty)``.
        choice_with_value: ``(C) 24`` answers the choice C.
        approximate_twin: of ``2.17 \approx \frac{13}{6}`` the exact side counts.
        doubled_backslashes: ``\\frac12`` is read as ``\frac12``.
        number_words: ``five`` equals 5.
        sampled_identities: Two expressions in variables with the same values to 110 digits at
            many points are equal; without, only what is proved is.
        stop_texts: ``Question:`` and ``Problem:`` at the start of a line, and chat tokens, end a
            completion.
        join_boxes: ``\boxed{2} or \boxed{3}`` is one list.
        claims: "the answer is x" counts where nothing is boxed (lenient mode).
        last_number: the last number of a GSM8K completion counts where nothing else is found.
        bare_answer: a completion of one short line is itself the answer.
    """

    percent_optional: bool = True
    degrees_convert: bool = True
    money_converts: bool = True
    decimal_comma: bool = True
    drop_label: bool = True
    drop_parentheses: bool = True
    set_of_one: bool = True
    assignments_as_points: bool = True
    comma_unions: bool = True
    drop_base: bool = True
    ratios_by_value: bool = True
    solved_inequalities: bool = True
    choice_with_value: bool = True
    approximate_twin: bool = True
    doubled_backslashes: bool = True
    number_words: bool = True
    sampled_identities: bool = True
    stop_texts: bool = True
    join_boxes: bool = True
    claims: bool = True
    last_number: bool = True
    bare_answer: bool = True


DEFAULTS = Options()
STRICT = Options(claims=False, last_number=False, bare_answer=False, join_boxes=False)
"""Only a box (math) or a ``####`` line (GSM8K) holds an answer."""

"""Sums and comparisons of independent distributions, in closed form except for uncertain BETWEEN bounds.

Probabilities of a normal distribution: P(N(m, v) > k) = erfc((k - m) / sqrt(2 v)) / 2, which is exact even
far out in the tail; the difference of two normal distributions is normal. Two uniform distributions: P(U(a,
b) > U(c, d)) is computed from h(z) = max(z, 0)^2 / 2 at the four corners. For a normal and a uniform
distribution, the probability P(left > right) is computed from G(z) = z Phi(z) + phi(z). Only `between` with
uncertain bounds is integrated numerically, by Gauss-Legendre quadrature between the points where the slope of
a density changes.
"""

from __future__ import annotations

import math
from functools import lru_cache

from .distributions import Distribution, Normal, Uniform, certain_value

_ROOT_2 = math.sqrt(2.0)
_ROOT_2_PI = math.sqrt(2.0 * math.pi)
_SPREAD = (-9.0, -6.0, -4.0, -2.5, -1.0, 0.0, 1.0, 2.5, 4.0, 6.0, 9.0)


def add(left: Distribution, right: Distribution) -> Distribution | None:
    """Return the distribution of a sum; None if it is neither normal nor uniform (Definition 3)."""
    shift = certain_value(right)
    if shift is not None:
        return _shifted(left, shift)
    shift = certain_value(left)
    if shift is not None:
        return _shifted(right, shift)
    if isinstance(left, Normal) and isinstance(right, Normal):
        return Normal(left.mean + right.mean, left.variance + right.variance)
    return None


def subtract(left: Distribution, right: Distribution) -> Distribution | None:
    """Return the distribution of a difference; None if it is neither normal nor uniform (Definition 4)."""
    return add(left, _negated(right))


def greater(left: Distribution, right: Distribution) -> float:
    """Return the probability P(left > right) of two independent values (Definition 5)."""
    bound = certain_value(right)
    if bound is not None:
        return above(left, bound)
    value = certain_value(left)
    if value is not None:
        return below(right, value)
    match left, right:
        case Normal(), Normal():
            return above(Normal(left.mean - right.mean, left.variance + right.variance), 0.0)
        case Uniform(), Uniform():
            return _uniform_greater(left, right)
        case Normal(), Uniform():
            return _normal_greater(left, right)
        case Uniform(), Normal():
            # Both distributions are mirrored at 0, so that a small probability is computed directly and not
            # as 1 minus a large one.
            mean, (low, high) = -right.mean, (-left.high, -left.low)
            return _normal_greater(Normal(mean, right.variance), Uniform(low, high))
    raise AssertionError("unreachable")


def greater_or_equal(left: Distribution, right: Distribution) -> float:
    """Return P(left >= right), which differs from `greater` only if both values are exact."""
    value, bound = certain_value(left), certain_value(right)
    if value is not None and bound is not None:
        return float(value >= bound)
    return greater(left, right)


def above(distribution: Distribution, bound: float) -> float:
    """Return the probability that a value of the distribution is above the bound."""
    value = certain_value(distribution)
    if value is not None:
        return float(value > bound)
    match distribution:
        case Normal(mean, variance):
            return 0.5 * math.erfc((bound - mean) / math.sqrt(2.0 * variance))
        case Uniform(low, high):
            return min(1.0, max(0.0, (high - bound) / (high - low)))


def below(distribution: Distribution, bound: float) -> float:
    """Return the probability that a value of the distribution is below the bound."""
    return above(_negated(distribution), -bound)


def between(value: Distribution, low: Distribution, high: Distribution) -> float:
    """Return P(low < value < high) of three independent distributions (Definition 7)."""
    least, most = certain_value(low), certain_value(high)
    if least is not None and most is not None:
        return _between_numbers(value, least, most)
    fixed = certain_value(value)
    if fixed is not None:
        return below(low, fixed) * above(high, fixed)
    return _integrated_between(value, low, high)


def _between_numbers(value: Distribution, low: float, high: float) -> float:
    if low >= high:
        return 0.0
    fixed = certain_value(value)
    if fixed is not None:
        return float(low < fixed < high)
    # The probability of an interval subtracts the smaller tails, because 1 - (1 - p) would lose every digit
    # of a p far out in the tail.
    if above(value, low) <= 0.5:
        return max(0.0, above(value, low) - above(value, high))
    return max(0.0, below(value, high) - below(value, low))


def _shifted(distribution: Distribution, by: float) -> Distribution:
    match distribution:
        case Normal(mean, variance):
            return Normal(mean + by, variance)
        case Uniform(low, high):
            return Uniform(low + by, high + by)


def _negated(distribution: Distribution) -> Distribution:
    match distribution:
        case Normal(mean, variance):
            return Normal(-mean, variance)
        case Uniform(low, high):
            return Uniform(-high, -low)


def _uniform_greater(left: Uniform, right: Uniform) -> float:
    if left.low >= right.high:
        return 1.0
    if left.high <= right.low:
        return 0.0

    def half_square(z: float) -> float:
        return z * z / 2.0 if z > 0 else 0.0

    area = (
        half_square(left.high - right.low)
        - half_square(left.low - right.low)
        - half_square(left.high - right.high)
        + half_square(left.low - right.high)
    )
    return min(1.0, max(0.0, area / ((left.high - left.low) * (right.high - right.low))))


def _normal_greater(left: Normal, right: Uniform) -> float:
    """Return P(left > right) as the mean of P(left > u) over all u of the uniform distribution."""
    deviation = math.sqrt(left.variance)

    def integral(z: float) -> float:
        return z * 0.5 * math.erfc(-z / _ROOT_2) + math.exp(-z * z / 2.0) / _ROOT_2_PI

    first, last = (left.mean - right.low) / deviation, (left.mean - right.high) / deviation
    if first - last < 1e-5:
        return above(left, (right.low + right.high) / 2.0)
    return min(1.0, max(0.0, (integral(first) - integral(last)) / (first - last)))


def _integrated_between(value: Distribution, low: Distribution, high: Distribution) -> float:
    """Return the integral of the density of ``value`` times P(low < x) P(high > x) over all x."""
    start, end = _support(value)
    least, most = certain_value(low), certain_value(high)
    start = start if least is None else max(start, least)
    end = end if most is None else min(end, most)
    points = {start, end}.union(*(_bends(each) for each in (value, low, high)))
    inside = sorted(point for point in points if start <= point <= end)
    total = 0.0
    for left, right in zip(inside, inside[1:], strict=False):
        half, middle = (right - left) / 2.0, (left + right) / 2.0
        total += half * math.fsum(
            weight * _density(value, x) * below(low, x) * above(high, x)
            for node, weight in _gauss_legendre(24)
            for x in (middle + half * node,)
        )
    return min(1.0, max(0.0, total))


def _support(distribution: Distribution) -> tuple[float, float]:
    match distribution:
        case Normal(mean, variance):
            reach = 9.0 * math.sqrt(variance)
            return mean - reach, mean + reach
        case Uniform(low, high):
            return low, high


def _bends(distribution: Distribution) -> set[float]:
    match distribution:
        case Normal(mean, variance):
            return {mean + step * math.sqrt(variance) for step in _SPREAD}
        case Uniform(low, high):
            return {low, high}


def _density(distribution: Distribution, x: float) -> float:
    match distribution:
        case Normal(mean, variance):
            return math.exp(-((x - mean) ** 2) / (2.0 * variance)) / math.sqrt(2.0 * math.pi * variance)
        case Uniform(low, high):
            return 1.0 / (high - low) if low <= x <= high else 0.0


@lru_cache(maxsize=4)
def _gauss_legendre(count: int) -> tuple[tuple[float, float], ...]:
    """Return the nodes and weights of Gauss-Legendre quadrature on [-1, 1], computed by Newton's method."""
    rule = []
    for index in range(count):
        x = math.cos(math.pi * (index + 0.75) / (count + 0.5))
        slope = 1.0
        for _ in range(50):
            previous, current = 1.0, x
            for degree in range(2, count + 1):
                following = ((2 * degree - 1) * x * current - (degree - 1) * previous) / degree
                previous, current = current, following
            slope = count * (x * current - previous) / (x * x - 1.0)
            step = current / slope
            x -= step
            if abs(step) < 1e-15:
                break
        rule.append((x, 2.0 / ((1.0 - x * x) * slope * slope)))
    return tuple(rule)

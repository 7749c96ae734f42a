// Columns of the output: paths and channels, and the moments of each over the nodes of a graph.

// How far skewness and kurtosis count at a variance of so many floors, and the slope of that.
struct Fade {
    real fade, slope;
};

__device__ inline Fade fade_of(real ratio) {
    real r = (ratio - 1) / 3;
    r = r < 0 ? real(0) : r > 1 ? real(1) : r;
    return {r * r * r * (10 - 15 * r + 6 * r * r), 10 * r * r * (1 - r) * (1 - r)};
}

// Moments of N columns, of which a thread has the values at its nodes, value_of(r, n), with the
// channels of the group in turn; write(n, moments) for each.
// Powers are summed in units of sqrt(floor): they neither overflow nor vanish where they count.
template <int N, class Value, class Write>
__device__ inline void moments(const Graph& g, const Held& held, const Memory& memory, const real (&units)[SAME],
                               Value value_of, Write write) {
    const real share = g.share;
    constexpr int EACH = N / W;  // columns of a lane
    team_sums<N>(memory, memory.sums, [&](int n) {
        real sum = 0;
#pragma unroll
        for (int r = 0; r < HELD; ++r) sum += held.times(r) * value_of(r, n);
        return sum;
    });
    real* powers = memory.sums + up_to(W * K, 16);
    team_sums<3 * N>(memory, powers, [&](int k) {
        const int n = k % N;
        const real mean = memory.sums[n] * share, unit = units[n / EACH % SAME];
        real sum = 0;
#pragma unroll
        for (int r = 0; r < HELD; ++r) {
            const real d = held.inside(g, r) ? (value_of(r, n) - mean) * unit : real(0);
            sum += held.times(r) * (k < N ? d * d : k < 2 * N ? d * d * d : d * d * (d * d));
        }
        return sum;
    });
    for (int n = me(); n < N; n += TEAM) {
        const real ratio = powers[n] * share, per_scale = rsqrt(ratio > 1 ? ratio : real(1));
        const real fade = fade_of(ratio).fade, cubed = per_scale * per_scale * per_scale;
        const real fourth = powers[2 * N + n] * share * cubed * per_scale;
        const Vec<4> found = {memory.sums[n] * share, ratio, fade * powers[N + n] * share * cubed,
                              g.nodes ? fade * (fourth - 3) : real(0)};
        write(n, found);
    }
}

// What the gradient of a loss in a column's values needs: the column's moments, and the loss's
// gradient in them, as the numbers of a polynomial.
struct Facts {
    real mean, unit, per_scale, constant, linear, square, cube, unused;

    // The moments themselves are known: skewness and kurtosis tell cube and fourth where they count.
    __device__ Facts(const Graph& g, real floor, const real* known, const real* given) {
        const real share = g.share, ratio = known[1] / floor;
        const Fade f = fade_of(ratio);
        const real third = f.fade > 0 ? known[2] / f.fade : real(0);
        const real fourth = f.fade > 0 ? known[3] / f.fade + 3 : real(3);
        const real root = sqrt(floor), g3 = given[2] * f.fade, g4 = given[3] * f.fade;
        mean = known[0];
        unit = 1 / root;
        per_scale = rsqrt(ratio > 1 ? ratio : real(1));
        const real both = unit * per_scale, above = ratio > 1 ? 1 / ratio : real(0);
        // Of the loss in the variance, times the unit; the loss in units would overflow.
        const real by_variance = given[1] * root + unit * (f.slope * (given[2] * third + given[3] * (fourth - 3)) -
                                                           above * (real(1.5) * g3 * third + 2 * g4 * fourth));
        constant = share * (given[0] - both * (3 * g3 * ratio * per_scale * per_scale + 4 * g4 * third));
        linear = share * 2 * by_variance;
        square = share * 3 * both * g3;
        cube = share * 4 * both * g4;
        unused = 0;
    }

    __device__ void forget() { constant = linear = square = cube = 0; }

    // The gradient in a signed coefficient, of which the column has the absolute value. More may have
    // come back to that value on another way.
    __device__ real slope(real z, real more = 0) const {
        const real centred = (fabs(z) - mean) * unit, d = centred * per_scale;
        const real slope = constant + linear * centred + d * d * (square + cube * d) + more;
        return z > 0 ? slope : z < 0 ? -slope : real(0);
    }
};

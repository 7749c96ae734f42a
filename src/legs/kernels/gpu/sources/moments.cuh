// Moments of the columns of a graph.

// Where the values of an output column lie.
struct Column {
    const real* values;  // null at order 0
    int stride, channel;
};

__device__ inline Column column_of(int column, const real* first, const real* second) {
    const int path = column / C, c = column % C;
    if (path == 0) return {nullptr, C, c};
    if (path <= J) return {first + (path - 1) * C + c, FIRST, c};
    int rest = path - 1 - J, j = 0;
    for (; rest >= J - CHILD(j); ++j) rest -= J - CHILD(j);
    return {second + ROW(CHILD(j) + rest) * LANES + j * C + c, SECOND, c};
}

// Sum over the threads that share a column: neighbours in a warp, a power of two of them.
__device__ inline real shared_sum(real value, int parts) {
    for (int k = parts >> 1; k; k >>= 1) value += __shfl_xor_sync(~0u, value, k);
    return value;
}

// Threads to spare for each of so many sums, within a warp.
__device__ inline int parts_of(int sums) {
    int parts = 1;
    while (parts < 32 && 2 * parts * sums <= THREADS) parts *= 2;
    return parts;
}

// How far skewness and kurtosis count at a variance of so many floors, and the slope of that.
struct Fade {
    real fade, slope;
};

__device__ inline Fade fade_of(real ratio) {
    real r = (ratio - 1) / 3;
    r = r < 0 ? real(0) : r > 1 ? real(1) : r;
    return {r * r * r * (10 - 15 * r + 6 * r * r), 10 * r * r * (1 - r) * (1 - r)};
}

// Moments of a column, by threads that share its nodes. Powers are summed in units of sqrt(floor):
// they neither overflow nor vanish where they count.
__device__ void moments_of(const Graph& g, const real* x, Column column, real floor, int part, int parts,
                           real* out) {
    const int n = g.nodes;
    const real share = g.share;
    const real* values = column.values ? column.values : x + g.first * C + column.channel;
    const bool absolute = column.values != nullptr;
    real sum = 0;
    for (int i = part; i < n; i += parts) {
        const real z = values[i * column.stride];
        sum += g.times(i) * (absolute ? fabs(z) : z);
    }
    const real mean = shared_sum(sum, parts) * share, per_unit = 1 / sqrt(floor);
    real square = 0, cube = 0, fourth = 0;
    for (int i = part; i < n; i += parts) {
        const real z = values[i * column.stride];
        const real d = ((absolute ? fabs(z) : z) - mean) * per_unit;
        const real weighed = g.times(i) * d * d;
        square += weighed;
        cube += weighed * d;
        fourth += weighed * (d * d);
    }
    const real ratio = shared_sum(square, parts) * share;
    const real per_scale = 1 / sqrt(ratio > 1 ? ratio : real(1)), fade = fade_of(ratio).fade;
    cube = shared_sum(cube, parts) * share * per_scale * per_scale * per_scale;
    fourth = shared_sum(fourth, parts) * share * per_scale * per_scale * per_scale * per_scale;
    if (!out || part) return;
    out[0] = mean;
    out[1] = ratio * floor;
    out[2] = fade * cube;
    out[3] = n ? fade * (fourth - 3) : real(0);
}

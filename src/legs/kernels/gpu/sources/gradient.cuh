// Backward: from gradients of the moments to the gradient of the filters.

// Gradients of the signed coefficients of columns [from, to), written over these. Cube and fourth
// follow from skewness and kurtosis, which the forward computed. The gradient from the next order,
// by item, is added if there is one.
__device__ void through_moments(const Graph& g, const Memory& mem, const real* floors, const real* moments,
                                const real* grad, int from, int to, const real* next) {
    const int parts = parts_of(to - from), part = threadIdx.x % parts;
    const real share = g.share;
    for (int column = from + threadIdx.x / parts; column < to; column += THREADS / parts) {
        const Column where = column_of(column, mem.first, mem.second);
        const real *known = moments + column * 4, *given = grad + column * 4;
        const real floor = floors[where.channel], mean = known[0], ratio = known[1] / floor;
        const Fade f = fade_of(ratio);
        const real cube = f.fade > 0 ? known[2] / f.fade : real(0);
        const real fourth = f.fade > 0 ? known[3] / f.fade + 3 : real(3);
        const real root = sqrt(floor), unit = 1 / root;
        const real per_scale = 1 / sqrt(ratio > 1 ? ratio : real(1)), both = unit * per_scale;
        const real g3 = given[2] * f.fade, g4 = given[3] * f.fade;
        const real above = ratio > 1 ? 1 / ratio : real(0);
        // Of the loss in the variance, times the unit; the loss in units would overflow.
        const real by_variance = given[1] * root + unit * (f.slope * (given[2] * cube + given[3] * (fourth - 3)) -
                                                           above * (real(1.5) * g3 * cube + 2 * g4 * fourth));
        const real by_mean = given[0] - both * (3 * g3 * ratio * per_scale * per_scale + 4 * g4 * cube);
        const int lane = column - C;
        real* values = const_cast<real*>(where.values);
        for (int i = part; i < g.nodes; i += parts) {
            const real z = values[i * where.stride];
            const real centred = (fabs(z) - mean) * unit, d = centred * per_scale;
            real slope = by_mean + 2 * centred * by_variance + both * d * d * (3 * g3 + 4 * g4 * d);
            slope *= share;
            if (next && lane < LANES) slope += next[i * LANES + lane];
            values[i * where.stride] = z > 0 ? slope : z < 0 ? -slope : real(0);
        }
    }
    __syncthreads();
}

// What one order contributes to the gradient of the filters: a thread for a step and a channel, or
// several that share the nodes.
template <bool SECOND_ORDER>
__device__ void collect(const Graph& g, const Memory& mem, const real* powers, real* out) {
    const int parts = parts_of(C * M), part = threadIdx.x % parts;
    const place_t size = state_size((place_t)g.nodes * (SECOND_ORDER ? LANES : C));
    for (int base = 0; base < C * M; base += THREADS / parts) {
        const int place = base + threadIdx.x / parts;
        const bool counts = place < C * M;
        const int s = counts ? place / C : 0, c = counts ? place % C : 0;
        real sums[J];
#pragma unroll
        for (int k = 0; k < J; ++k) sums[k] = 0;
        for (int i = part; i < g.nodes; i += parts) {
            if (SECOND_ORDER) {
                const real degree = mem.degree[i] * g.times(i);
#pragma unroll
                for (int j = 0; j < LANES / C; ++j) {
                    const real state = mem.q[s * size + i * LANES + j * C + c] * degree;
#pragma unroll
                    for (int k = CHILD(j); k < J; ++k)
                        sums[k] += mem.second[i * SECOND + ROW(k) * LANES + j * C + c] * state;
                }
            } else {
                const real once = powers ? powers[((g.first + i) * M + s) * C + c]
                                         : mem.q[s * size + i * C + c] * mem.degree[i];
                const real state = once * g.times(i);
#pragma unroll
                for (int k = 0; k < J; ++k) sums[k] += mem.first[i * FIRST + k * C + c] * state;
            }
        }
#pragma unroll
        for (int k = 0; k < J; ++k) {
            const real sum = shared_sum(sums[k], parts);
            real* cell = out + (c * J + k) * M + s;
            if (counts && part == 0) *cell = SECOND_ORDER ? sum : *cell + sum;
        }
    }
    __syncthreads();
}

// g_s = sum_k bank_ks gbar_k + P^T g_{s+1}, over the states, which have served. Returns (I - P^T) g_0.
__device__ const real* adjoint(const Graph& g, const Held<LANES>& held, const Memory& mem) {
    const place_t items = (place_t)g.nodes * LANES, size = state_size(items);
#if SMALL
    real given[ITEMS][J], own[ITEMS];
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
        own[r] = 0;
        const int item = r * THREADS + threadIdx.x, lane = item % LANES;
#pragma unroll
        for (int k = ALL ? 0 : 1; k < J; ++k)
            given[r][k] = item < items && k >= CHILD(lane / C)
                              ? mem.second[item / LANES * SECOND + ROW(k) * LANES + lane]
                              : real(0);
    }
    // The state before the last one: zero, so that all steps are the same.
    for (int k = threadIdx.x; k < items; k += THREADS) mem.q[(M & 1) * size + k] = 0;
    if (threadIdx.x < 2) mem.q[threadIdx.x * size + items] = 0;
    __syncthreads();
#pragma unroll 1
    for (int s = M - 1; s >= 0; --s) {
        real* now = mem.q + (s & 1) * size;
        const real* before = mem.q + ((s + 1) & 1) * size;
#pragma unroll
        for (int r = 0; r < ITEMS; ++r) {
            if (idle(r, items)) break;
            own[r] = held.lazy(g, before, r, own[r]);
        }
#pragma unroll
        for (int k = ALL ? 0 : 1; k < J; ++k)
#pragma unroll
            for (int r = 0; r < ITEMS; ++r)
                own[r] += mem.bank[(s * J + k) * C + channel_of<LANES>(r * THREADS + threadIdx.x)] * given[r][k];
#pragma unroll
        for (int r = 0; r < ITEMS; ++r) {
            const int item = r * THREADS + threadIdx.x;
            if (item < items) now[item] = own[r];
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < ITEMS; ++r) {
        const int item = r * THREADS + threadIdx.x;
        if (item < items) mem.q[size + item] = held.template gathered<true>(g, mem.q, r) / 2;
    }
#else
    for (int s = M - 1; s >= 0; --s) {
        for (place_t item = threadIdx.x; item < items; item += THREADS) {
            const int i = item / LANES, lane = item % LANES;
            real sum = s < M - 1 ? lazy<LANES>(g, mem.q + (s + 1) * size, i, lane) : real(0);
            for (int k = CHILD(lane / C); k < J; ++k)
                sum += mem.bank[(s * J + k) * C + lane % C] * mem.second[i * SECOND + ROW(k) * LANES + lane];
            mem.q[s * size + item] = sum;
        }
        __syncthreads();
    }
    for (place_t item = threadIdx.x; item < items; item += THREADS)
        mem.q[size + item] = gathered<LANES, true>(g, mem.q, item / LANES, item % LANES) / 2;
#endif
    __syncthreads();
    return mem.q + size;
}

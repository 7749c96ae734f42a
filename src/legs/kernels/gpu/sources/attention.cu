// Attention over the neighbors of a node, a warp per row and model. Constants: real, THREADS, HEADS
// (a power of two up to 32), WIDTH (channels of a head).

#define LANES (32 / HEADS)  // of a head

struct Row {
    index_t model, i, first, last;
    int lane, head;  // lanes of a head share its entries

    __device__ Row(const index_t* rowptr, int models, int rows) {
        const index_t place = (index_t)blockIdx.x * WARPS + threadIdx.x / 32;
        model = place / rows, i = place % rows;
        lane = threadIdx.x % 32, head = lane % HEADS;
        if (model < models) first = rowptr[i], last = rowptr[i + 1];
    }
    // Calls f for the entries of this lane.
    template <class F>
    __device__ __forceinline__ void each(F f) const {
        for (index_t e = first + lane / HEADS; e < last; e += LANES) f(e);
    }
};

// share[m, e, h]: softmax over the entries of a row of leaky_relu(source[m, col_e, h] +
// target[m, i, h]), each of which counts weight_e times.
extern "C" __global__ void __launch_bounds__(THREADS)
attention_forward(const index_t* __restrict__ rowptr, const index_t* __restrict__ col,
                  const real* __restrict__ weight, const real* __restrict__ source,
                  const real* __restrict__ target, real* __restrict__ share, int models, int rows,
                  int entries, double slope) {
    const Row row(rowptr, models, rows);
    if (row.model >= models) return;
    source += row.model * rows * HEADS + row.head, share += row.model * entries * HEADS + row.head;
    const real own = target[(row.model * rows + row.i) * HEADS + row.head];
    real top = real(-3e38), sum = 0;
    row.each([&](index_t e) {
        const real raw = source[col[e] * HEADS] + own, score = raw > 0 ? raw : real(slope) * raw;
        share[e * HEADS] = score;
        top = score > top ? score : top;
    });
    for (int k = HEADS; k < 32; k *= 2) {
        const real other = __shfl_xor_sync(~0u, top, k);
        top = other > top ? other : top;
    }
    row.each([&](index_t e) { sum += share[e * HEADS] = weight[e] * exp(share[e * HEADS] - top); });
    sum = sum_over(sum, HEADS, 32);
    row.each([&](index_t e) { share[e * HEADS] /= sum; });
}

// change[m, e, h]: gradient of the score before leaky_relu; of_target[m, i, h]: its sum over a row.
extern "C" __global__ void __launch_bounds__(THREADS)
attention_backward(const index_t* __restrict__ rowptr, const index_t* __restrict__ col,
                   const real* __restrict__ source, const real* __restrict__ target,
                   const real* __restrict__ share, const real* __restrict__ hidden,
                   const real* __restrict__ grad, real* __restrict__ change,
                   real* __restrict__ of_target, int models, int rows, int entries, double slope) {
    const Row row(rowptr, models, rows);
    if (row.model >= models) return;
    share += row.model * entries * HEADS, change += row.model * entries * HEADS;
    hidden += row.model * rows * HEADS * WIDTH, source += row.model * rows * HEADS;
    const index_t place = row.model * rows + row.i;
    // First, lanes of a head share its channels.
    const int part = row.lane % LANES, first = row.lane / LANES * WIDTH + part;
    real grads[(WIDTH + LANES - 1) / LANES];
#pragma unroll
    for (int k = 0; k * LANES < WIDTH; ++k)
        grads[k] = k * LANES + part < WIDTH ? grad[place * HEADS * WIDTH + first + k * LANES] : real(0);
#pragma unroll 4
    for (index_t e = row.first; e < row.last; ++e) {
        const real* there = hidden + col[e] * HEADS * WIDTH + first;
        real dot = 0;
#pragma unroll
        for (int k = 0; k * LANES < WIDTH; ++k)
            if (k * LANES + part < WIDTH) dot += grads[k] * there[k * LANES];
        dot = sum_over(dot, 1, LANES);
        if (part == 0) change[e * HEADS + row.lane / LANES] = dot;
    }
    __syncwarp();
    share += row.head, change += row.head, source += row.head;
    const real own = target[place * HEADS + row.head];
    real mean = 0, sum = 0;
    row.each([&](index_t e) { mean += share[e * HEADS] * change[e * HEADS]; });
    mean = sum_over(mean, HEADS, 32);
    row.each([&](index_t e) {
        const real centred = share[e * HEADS] * (change[e * HEADS] - mean);
        sum += change[e * HEADS] = source[col[e] * HEADS] + own > 0 ? centred : real(slope) * centred;
    });
    sum = sum_over(sum, HEADS, 32);
    if (row.lane < HEADS) of_target[place * HEADS + row.head] = sum;
}

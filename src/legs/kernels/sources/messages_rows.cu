// Forward and backward of messages_rows.cuh: a group of threads a row.

#define OTHERS ((ACT == 1 ? 2 : 0) + BIASED)
#define TERMS (OTHERS + NARROW)

extern "C" __global__ void __launch_bounds__(THREADS)
rows_forward(const real* __restrict__ z, const real* __restrict__ bias,
             const real* __restrict__ gamma, const real* __restrict__ beta,
             const real* __restrict__ weight, int biases_apart, int gammas_apart, int betas_apart,
             int weights_apart, real* __restrict__ out, int rows, int blocks, int each,
             double eps) {
    const int model = blockIdx.x / blocks;
    Layer layer;
    layer.read(model, gamma, gammas_apart, beta, betas_apart, bias, biases_apart, weight,
               weights_apart);
    const long long base = (long long)model * rows;
    const int first = blockIdx.x % blocks * each, end = first + each < rows ? first + each : rows;
    Row row, next;
    int i = first + threadIdx.x / LANES;
    if (i < end) layer.fetch(next, z, base + i);
    for (; i < end; i += GROUPS) {
        row = next;
        // The next row is on its way while this one is worked on.
        if (i + GROUPS < end) layer.fetch(next, z, base + i + GROUPS);
        layer.apply(row, real(eps));
        row.write(out + (base + i) * FEATURES);
    }
}

// out[model, graph, k] = sum of share[i, k] times row i over the nodes of the graph: a block a graph.
extern "C" __global__ void __launch_bounds__(THREADS)
rows_pooled(const real* __restrict__ z, const real* __restrict__ bias,
            const real* __restrict__ gamma, const real* __restrict__ beta,
            const real* __restrict__ weight, int biases_apart, int gammas_apart, int betas_apart,
            int weights_apart, const real* __restrict__ share, const int* __restrict__ ptr,
            real* __restrict__ out, int rows, int graphs, double eps) {
    const int model = blockIdx.x / graphs, g = blockIdx.x % graphs;
    Layer layer;
    layer.read(model, gamma, gammas_apart, beta, betas_apart, bias, biases_apart, weight,
               weights_apart);
    Row sums[POOL + !POOL];
    for (int k = 0; k < POOL; ++k) sums[k].fill(0);
    for (int i = ptr[g] + threadIdx.x / LANES; i < ptr[g + 1]; i += GROUPS) {
        Row row;
        layer.fetch(row, z, (long long)model * rows + i);
        layer.apply(row, real(eps));
#pragma unroll
        for (int k = 0; k < POOL; ++k) sums[k].add(row, share[(long long)i * POOL + k]);
    }
#pragma unroll
    for (int k = 0; k < POOL; ++k)
        sum_groups(sums[k], out + ((long long)blockIdx.x * POOL + k) * FEATURES);
}

// Gradients: of every row (if they are wanted), `apart` numbers from the next; of gamma, beta, bias
// and every column of the weight as one sum a block, [models, blocks, TERMS].
extern "C" __global__ void __launch_bounds__(THREADS)
rows_backward(const real* __restrict__ grad, const real* __restrict__ z,
              const real* __restrict__ bias, const real* __restrict__ gamma,
              const real* __restrict__ beta, const real* __restrict__ weight, int biases_apart,
              int gammas_apart, int betas_apart, int weights_apart,
              const real* __restrict__ share, const int* __restrict__ graph,
              real* __restrict__ out, real* __restrict__ partial, int rows, int graphs, int blocks,
              int each, int apart, double eps) {
    const int model = blockIdx.x / blocks;
    Layer layer;
    layer.read(model, gamma, gammas_apart, beta, betas_apart, bias, biases_apart, weight,
               weights_apart);
    Row sums[TERMS + !TERMS];
    for (int t = 0; t < TERMS; ++t) sums[t].fill(0);
    const long long base = (long long)model * rows;
    const int first = blockIdx.x % blocks * each, end = first + each < rows ? first + each : rows;
    for (int i = first + threadIdx.x / LANES; i < end; i += GROUPS) {
        Row row, change;
        if (ACT) layer.fetch(row, z, base + i);
        if (POOL) {
            change.fill(0);
            const real* of = grad + ((long long)model * graphs + graph[i]) * POOL * FEATURES;
#pragma unroll
            for (int k = 0; k < POOL; ++k) {
                Row given;
                given.read(of + k * FEATURES);
                change.add(given, share[(long long)i * POOL + k]);
            }
        } else {
            change.read(grad + (base + i) * FEATURES);
        }
        layer.differentiate(row, change, real(eps), sums);
#pragma unroll
        for (int c = 0; c < NARROW; ++c) sums[OTHERS + c].add(change, z[(base + i) * NARROW + c]);
        if (out) change.write(out + (base + i) * apart);
    }
#pragma unroll
    for (int t = 0; t < TERMS; ++t)
        sum_groups(sums[t], partial + ((long long)blockIdx.x * TERMS + t) * FEATURES);
}

// What is done to every row of states by itself: a bias, then layer norm and ReLU, or tanh.
//
// Further constants: PIECES of a row; ACT: nothing (0), layer norm and ReLU (1), tanh (2); BIASED;
// POOL: number of weights a node of a sum over the nodes of each graph, or 0 for no such sum; NARROW:
// number of inputs of a linear layer that makes the rows, or 0 where rows are given themselves.

#define FEATURES (PIECES * WIDTH)
#define PER ((PIECES + LANES - 1) / LANES)

struct Row {
    real part[PER][WIDTH];

    __device__ void fill(real value) {
#pragma unroll
        for (int p = 0; p < PER; ++p)
#pragma unroll
            for (int w = 0; w < WIDTH; ++w) part[p][w] = value;
    }
    __device__ void read(const real* from) {
#pragma unroll
        for (int p = 0; p < PER; ++p) {
            const int piece = p * LANES + threadIdx.x % LANES;
            Piece found = {};
            if (piece < PIECES) found = *(const Piece*)(from + piece * WIDTH);
#pragma unroll
            for (int w = 0; w < WIDTH; ++w) part[p][w] = found.part[w];
        }
    }
    __device__ void write(real* to) const {
#pragma unroll
        for (int p = 0; p < PER; ++p) {
            const int piece = p * LANES + threadIdx.x % LANES;
            Piece given;
#pragma unroll
            for (int w = 0; w < WIDTH; ++w) given.part[w] = part[p][w];
            if (piece < PIECES) *(Piece*)(to + piece * WIDTH) = given;
        }
    }
    __device__ void add(const Row& other, real times = 1) {
#pragma unroll
        for (int p = 0; p < PER; ++p)
#pragma unroll
            for (int w = 0; w < WIDTH; ++w) part[p][w] += times * other.part[p][w];
    }
    // Mean over the row of this times another: all lanes of the group get it.
    __device__ real mean(const Row* other = nullptr) const {
        real sum = 0;
#pragma unroll
        for (int p = 0; p < PER; ++p)
#pragma unroll
            for (int w = 0; w < WIDTH; ++w)
                sum += other ? part[p][w] * other->part[p][w] : part[p][w];
        return total_over(LANES, sum) / FEATURES;
    }
};

struct Layer {
    Row gamma, beta, bias, weight[NARROW + !NARROW];

    // What a layer has for a model lies among other parameters of it: so many numbers `apart`.
    __device__ void read(int model, const real* gammas, int gammas_apart, const real* betas,
                         int betas_apart, const real* biases, int biases_apart,
                         const real* weights, int weights_apart) {
        if (ACT == 1) gamma.read(gammas + (long long)model * gammas_apart);
        if (ACT == 1) beta.read(betas + (long long)model * betas_apart);
        if (BIASED) bias.read(biases + (long long)model * biases_apart);
        const real* own = weights + (long long)model * weights_apart;
#pragma unroll
        for (int c = 0; c < NARROW; ++c)
#pragma unroll
            for (int p = 0; p < PER; ++p)
#pragma unroll
                for (int w = 0; w < WIDTH; ++w) {
                    const int place = (p * LANES + threadIdx.x % LANES) * WIDTH + w;
                    weight[c].part[p][w] = place < FEATURES ? own[place * NARROW + c] : 0;
                }
    }

    // Row i: as it lies in memory, or from its inputs, which do.
    __device__ void fetch(Row& row, const real* z, long long i) const {
        if (!NARROW) return row.read(z + i * FEATURES);
        row.fill(0);
#pragma unroll
        for (int c = 0; c < NARROW; ++c) row.add(weight[c], z[i * NARROW + c]);
    }

    // The row standardised, for layer norm; returns one over the deviation.
    __device__ real standardise(Row& row, real eps) const {
        const real mean = row.mean();
#pragma unroll
        for (int p = 0; p < PER; ++p)
#pragma unroll
            for (int w = 0; w < WIDTH; ++w)
                // Lanes beyond the end of the row stay out of its variance.
                row.part[p][w] = p * LANES + threadIdx.x % LANES < PIECES ? row.part[p][w] - mean : 0;
        const real scale = 1 / sqrt(row.mean(&row) + eps);
#pragma unroll
        for (int p = 0; p < PER; ++p)
#pragma unroll
            for (int w = 0; w < WIDTH; ++w) row.part[p][w] *= scale;
        return scale;
    }

    __device__ void apply(Row& row, real eps) const {
        if (BIASED) row.add(bias);
        if (ACT == 1) standardise(row, eps);
#pragma unroll
        for (int p = 0; p < PER; ++p)
#pragma unroll
            for (int w = 0; w < WIDTH; ++w) {
                real& x = row.part[p][w];
                if (ACT == 1) x = gamma.part[p][w] * x + beta.part[p][w];
                if (ACT == 1) x = x < 0 ? 0 : x;  // not a number stays so
                if (ACT == 2) x = tanh(x);
            }
    }

    // From the row and the gradient of the result to the gradient of the row; adds to those of
    // gamma, beta and bias.
    __device__ void differentiate(Row& row, Row& grad, real eps, Row* sums) const {
        if (BIASED) row.add(bias);
        if (ACT == 1) {
            const real scale = standardise(row, eps);
#pragma unroll
            for (int p = 0; p < PER; ++p)
#pragma unroll
                for (int w = 0; w < WIDTH; ++w) {
                    const real x = row.part[p][w];
                    real& g = grad.part[p][w];
                    if (gamma.part[p][w] * x + beta.part[p][w] <= 0) g = 0;
                    sums[0].part[p][w] += g * x;
                    sums[1].part[p][w] += g;
                    g *= gamma.part[p][w];
                }
            const real mean = grad.mean(), slope = grad.mean(&row);
#pragma unroll
            for (int p = 0; p < PER; ++p)
#pragma unroll
                for (int w = 0; w < WIDTH; ++w)
                    grad.part[p][w] = scale * (grad.part[p][w] - mean - slope * row.part[p][w]);
        }
        if (ACT == 2) {
#pragma unroll
            for (int p = 0; p < PER; ++p)
#pragma unroll
                for (int w = 0; w < WIDTH; ++w) {
                    const real x = tanh(row.part[p][w]);
                    grad.part[p][w] *= 1 - x * x;
                }
        }
        if (BIASED) sums[ACT == 1 ? 2 : 0].add(grad);
    }
};

// Sum of a row of every group, in the order of the groups.
__device__ void sum_groups(const Row& row, real* to) {
    __shared__ real parts[THREADS * WIDTH];
#pragma unroll
    for (int p = 0; p < PER; ++p) {
        __syncthreads();
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) parts[w * THREADS + threadIdx.x] = row.part[p][w];
        __syncthreads();
        // A thread a number of the row, as far as there are.
        for (int k = threadIdx.x; k < LANES * WIDTH; k += THREADS) {
            const int lane = k / WIDTH, w = k % WIDTH;
            if (p * LANES + lane >= PIECES) continue;
            real sum = 0;
            for (int group = 0; group < GROUPS; ++group)
                sum += parts[w * THREADS + group * LANES + lane];
            to[p * LANES * WIDTH + k] = sum;
        }
    }
}

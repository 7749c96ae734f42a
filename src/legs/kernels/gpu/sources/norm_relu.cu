// relu(layer_norm(x + bias)) over the C channels of rows, for a stack of models: a warp per row.
// Some blocks, "parts", share the rows of a model.
//
// Constants: real, C, THREADS of a block.

#define WARPS (THREADS / 32)
#define EACH ((C + 31) / 32)  // channels of a lane

struct Lane {
    int model, part, warp, lane;
    real bias[EACH], weight[EACH], shift[EACH];

    __device__ Lane(const real* biases, const real* weights, const real* shifts, int parts)
        : model(blockIdx.x / parts), part(blockIdx.x % parts), warp(threadIdx.x / 32), lane(threadIdx.x % 32) {
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const index_t place = (index_t)model * C + k * 32 + lane;
            bias[k] = has(k) ? biases[place] : 0;
            weight[k] = has(k) ? weights[place] : 0;
            shift[k] = has(k) ? shifts[place] : 0;
        }
    }
    __device__ bool has(int k) const { return k * 32 + lane < C; }

    // The row of x, standardized in place; returns one over its deviation.
    __device__ real standardize(const real* x, real* value, double eps) const {
        real sum = 0, squares = 0;
#pragma unroll
        for (int k = 0; k < EACH; ++k) sum += value[k] = has(k) ? x[k * 32 + lane] + bias[k] : 0;
        const real mean = sum_over(sum, 1, 32) / C;
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            value[k] = has(k) ? value[k] - mean : 0;
            squares += value[k] * value[k];
        }
        const real scale = 1 / sqrt(sum_over(squares, 1, 32) / C + real(eps));
#pragma unroll
        for (int k = 0; k < EACH; ++k) value[k] *= scale;
        return scale;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
norm_relu_forward(const real* __restrict__ x, const real* __restrict__ bias,
                  const real* __restrict__ weight, const real* __restrict__ shift,
                  real* __restrict__ out, int rows, int parts, double eps) {
    const Lane me(bias, weight, shift, parts);
    for (int i = me.part * WARPS + me.warp; i < rows; i += parts * WARPS) {
        const index_t place = ((index_t)me.model * rows + i) * C;
        real value[EACH];
        me.standardize(x + place, value, eps);
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const real y = value[k] * me.weight[k] + me.shift[k];
            if (me.has(k)) out[place + k * 32 + me.lane] = y < 0 ? real(0) : y;  // NaN stays
        }
    }
}

// change: the gradient of x; sums[m, part]: those of bias, weight and shift over rows of a part.
extern "C" __global__ void __launch_bounds__(THREADS)
norm_relu_backward(const real* __restrict__ x, const real* __restrict__ bias,
                   const real* __restrict__ weight, const real* __restrict__ shift,
                   const real* __restrict__ grad, real* __restrict__ change,
                   real* __restrict__ sums, int rows, int parts, double eps) {
    const Lane me(bias, weight, shift, parts);
    real total[3][EACH] = {};
    for (int i = me.part * WARPS + me.warp; i < rows; i += parts * WARPS) {
        const index_t place = ((index_t)me.model * rows + i) * C;
        real value[EACH], given[EACH], mean = 0, slope = 0;
        const real scale = me.standardize(x + place, value, eps);
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const real y = value[k] * me.weight[k] + me.shift[k];
            const real passed = me.has(k) && y > 0 ? grad[place + k * 32 + me.lane] : real(0);
            total[1][k] += passed * value[k];
            total[2][k] += passed;
            given[k] = passed * me.weight[k];
            mean += given[k];
            slope += given[k] * value[k];
        }
        mean = sum_over(mean, 1, 32) / C, slope = sum_over(slope, 1, 32) / C;
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const real moved = scale * (given[k] - mean - value[k] * slope);
            if (me.has(k)) change[place + k * 32 + me.lane] = moved;
            total[0][k] += moved;
        }
    }
    __shared__ real all[WARPS][C];
    for (int n = 0; n < 3; ++n) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; ++k)
            if (me.has(k)) all[me.warp][k * 32 + me.lane] = total[n][k];
        __syncthreads();
        for (int c = threadIdx.x; c < C; c += THREADS) {
            real sum = 0;
            for (int w = 0; w < WARPS; ++w) sum += all[w][c];
            sums[((index_t)blockIdx.x * 3 + n) * C + c] = sum;
        }
    }
}

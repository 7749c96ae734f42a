// relu(layer_norm(x + bias)) over the C channels of rows, for a stack of models: a warp per row.
// Some blocks, "parts", share the rows of a model. Constants: real, C, THREADS of a block.

#define EACH ((C + 31) / 32)  // channels of a lane

// Calls f(register, channel) for all channels of a lane.
template <class F>
__device__ __forceinline__ void each_channel(F f) {
#pragma unroll
    for (int k = 0; k < EACH; ++k)
        if (k * 32 + threadIdx.x % 32 < C) f(k, k * 32 + threadIdx.x % 32);
}

// The row x + bias, standardized; returns one over its deviation.
__device__ __forceinline__ real standardize(const real* x, const real* bias, real* value, double eps) {
    real sum = 0, squares = 0;
    each_channel([&](int k, int c) { sum += value[k] = x[c] + bias[c]; });
    const real mean = sum_over(sum, 1, 32) / C;
    each_channel([&](int k, int) { value[k] -= mean, squares += value[k] * value[k]; });
    const real scale = 1 / sqrt(sum_over(squares, 1, 32) / C + real(eps));
    each_channel([&](int k, int) { value[k] *= scale; });
    return scale;
}

extern "C" __global__ void __launch_bounds__(THREADS)
norm_relu_forward(const real* __restrict__ x, const real* __restrict__ bias,
                  const real* __restrict__ weight, const real* __restrict__ shift,
                  real* __restrict__ out, int rows, int parts, double eps) {
    const index_t model = blockIdx.x / parts;
    bias += model * C, weight += model * C, shift += model * C;
    for (int i = blockIdx.x % parts * WARPS + threadIdx.x / 32; i < rows; i += parts * WARPS) {
        const index_t place = (model * rows + i) * C;
        real value[EACH];
        standardize(x + place, bias, value, eps);
        each_channel([&](int k, int c) {
            const real y = value[k] * weight[c] + shift[c];
            out[place + c] = y < 0 ? real(0) : y;  // NaN stays
        });
    }
}

// change: the gradient of x; sums[m, part]: those of bias, weight and shift over rows of a part.
extern "C" __global__ void __launch_bounds__(THREADS)
norm_relu_backward(const real* __restrict__ x, const real* __restrict__ bias,
                   const real* __restrict__ weight, const real* __restrict__ shift,
                   const real* __restrict__ grad, real* __restrict__ change,
                   real* __restrict__ sums, int rows, int parts, double eps) {
    const index_t model = blockIdx.x / parts;
    bias += model * C, weight += model * C, shift += model * C;
    real total[3][EACH] = {};
    for (int i = blockIdx.x % parts * WARPS + threadIdx.x / 32; i < rows; i += parts * WARPS) {
        const index_t place = (model * rows + i) * C;
        real value[EACH], scaled[EACH], mean = 0, slope = 0;
        const real scale = standardize(x + place, bias, value, eps);
        each_channel([&](int k, int c) {
            const real passed = value[k] * weight[c] + shift[c] > 0 ? grad[place + c] : real(0);
            total[1][k] += passed * value[k];
            total[2][k] += passed;
            scaled[k] = passed * weight[c];
            mean += scaled[k];
            slope += scaled[k] * value[k];
        });
        mean = sum_over(mean, 1, 32) / C, slope = sum_over(slope, 1, 32) / C;
        each_channel([&](int k, int c) {
            total[0][k] += change[place + c] = scale * (scaled[k] - mean - value[k] * slope);
        });
    }
#pragma unroll
    for (int n = 0; n < 3; ++n)
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const real sum = sum_over_warps(total[n][k]);
            const int c = k * 32 + threadIdx.x;
            if (threadIdx.x < 32 && c < C) sums[((index_t)blockIdx.x * 3 + n) * C + c] = sum;
        }
}

// Bands of node states, weighed and summed, for a stack of models:
//   out = w_0 x + sum_b w_(1+b) phi_b(band_b),  phi_b the absolute value for b < ABSOLUTE.
//
// Constants: real, B (bands), ABSOLUTE, THREADS: of a block, 32 channels times some rows.

__device__ inline real phi(int b, real value) { return b < ABSOLUTE ? fabs(value) : value; }

// x, out: [models, rows, channels]; bands: [models, rows, B, channels]; weight: [models, 1 + B, channels].
extern "C" __global__ void __launch_bounds__(THREADS)
mix_forward(const real* __restrict__ x, const real* __restrict__ bands, const real* __restrict__ weight,
            real* __restrict__ out, int models, int rows, int channels) {
    const index_t i = (index_t)blockIdx.x * THREADS + threadIdx.x, row = i / channels;
    if (row >= (index_t)models * rows) return;
    const int c = i % channels;
    const real* w = weight + row / rows * (1 + B) * channels + c;
    const real* band = bands + row * B * channels + c;
    real sum = w[0] * x[i];
#pragma unroll
    for (int b = 0; b < B; ++b) sum += w[(1 + b) * channels] * phi(b, band[b * channels]);
    out[i] = sum;
}

// Gradients of x and bands; of the weights, partial sums [models, parts, 1 + B, channels].
extern "C" __global__ void __launch_bounds__(THREADS)
mix_backward(const real* __restrict__ grad, const real* __restrict__ x, const real* __restrict__ bands,
             const real* __restrict__ weight, real* __restrict__ of_x, real* __restrict__ of_bands,
             real* __restrict__ partial, int parts, int rows, int channels) {
    const int tiles = (channels + 31) / 32, tile = blockIdx.x % tiles;
    const int part = blockIdx.x / tiles % parts, model = blockIdx.x / tiles / parts;
    const int c = tile * 32 + threadIdx.x % 32, warp = threadIdx.x / 32;
    real w[1 + B], sums[1 + B];
#pragma unroll
    for (int b = 0; b <= B; ++b) {
        w[b] = c < channels ? weight[((index_t)model * (1 + B) + b) * channels + c] : real(0);
        sums[b] = 0;
    }
    for (int i = part * WARPS + warp; i < rows && c < channels; i += parts * WARPS) {
        const index_t place = ((index_t)model * rows + i) * channels + c;
        const index_t first = ((index_t)model * rows + i) * B * channels + c;
        const real g = grad[place];
        sums[0] += g * x[place];
        of_x[place] = g * w[0];
#pragma unroll
        for (int b = 0; b < B; ++b) {
            const real band = bands[first + b * channels], slope = g * w[1 + b];
            sums[1 + b] += g * phi(b, band);
            const real sign = band > 0 ? slope : band < 0 ? -slope : real(0);
            of_bands[first + b * channels] = b < ABSOLUTE ? sign : slope;
        }
    }
    for (int b = 0; b <= B; ++b) {
        const real sum = sum_over_warps(sums[b]);
        if (warp == 0 && c < channels)
            partial[(((index_t)model * parts + part) * (1 + B) + b) * channels + c] = sum;
    }
}

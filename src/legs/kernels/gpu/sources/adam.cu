// A step of Adam for a stack of models, whose parameters are a row each; see
// legs.training.stacked.adam. Constants: real, THREADS of a block.
extern "C" __global__ void __launch_bounds__(THREADS)
adam(const real* __restrict__ grad, const real* __restrict__ lr, const real* __restrict__ steps,
     const bool* __restrict__ active, real* __restrict__ weights, real* __restrict__ first,
     real* __restrict__ second, int width, int apart, int blocks, double beta_first,
     double beta_second, double eps) {
    const int model = blockIdx.x / blocks;
    if (!active[model]) return;
    const real size = lr[model] / (1 - pow(beta_first, double(steps[model])));
    const real root = sqrt(1 - pow(beta_second, double(steps[model])));
    const long long row = (long long)model * width;
    for (int i = blockIdx.x % blocks * THREADS + threadIdx.x; i < width; i += blocks * THREADS) {
        const real g = grad[row + i];
        const real m = first[row + i] + real(1 - beta_first) * (g - first[row + i]);
        const real v = second[row + i] + real(1 - beta_second) * (g * g - second[row + i]);
        first[row + i] = m, second[row + i] = v;
        weights[(long long)model * apart + i] -= size * (m / (sqrt(v) / root + real(eps)));
    }
}

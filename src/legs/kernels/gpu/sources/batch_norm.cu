// Batch norm for a stack of models, each with the statistics of its own graphs; see
// legs.nn.GraphBatchNorm. A block has a model and TILE of its channels; GROUPS of threads share the
// graphs of a batch. Constants: real, THREADS, TILE, SAME (whether all models share the features).

#define GROUPS (THREADS / TILE)

struct Column {
    int model, channel, group, graphs, channels;
    bool inside;
    const real* mask;
    real count;  // of graphs under the mask

    __device__ Column(const real* masks, int graphs, int channels) : graphs(graphs), channels(channels) {
        const int tiles = (channels + TILE - 1) / TILE;
        model = blockIdx.x / tiles, group = threadIdx.x / TILE;
        channel = blockIdx.x % tiles * TILE + threadIdx.x % TILE;
        inside = channel < channels;
        if (!inside) channel = 0;  // computed, but not written
        mask = masks + (index_t)model * graphs;
        count = total([&](int g) { return mask[g]; });
    }
    // The sum over all graphs, in a fixed order, for all threads of a channel.
    template <class F>
    __device__ __forceinline__ real total(F f) const {
        __shared__ real parts[THREADS];
        real sum = 0;
        for (int g = group; g < graphs; g += GROUPS) sum += f(g);
        __syncthreads();
        parts[threadIdx.x] = sum;
        __syncthreads();
        sum = 0;
        for (int k = threadIdx.x % TILE; k < THREADS; k += TILE) sum += parts[k];
        return sum;
    }
    // Where the channel of a graph is, and that of a parameter with so many rows per model.
    __device__ index_t at(int g, int row) const { return ((index_t)row * graphs + g) * channels + channel; }
    __device__ index_t of(int rows) const { return (index_t)model * rows * channels + channel; }
    __device__ real share(int g) const { return mask[g] / (count > 1 ? count : 1); }
};

// Also updates the running averages; stats are the mean and one over the deviation.
extern "C" __global__ void __launch_bounds__(THREADS)
norm_forward(const real* __restrict__ x, const real* __restrict__ mask, const real* __restrict__ weight,
             const real* __restrict__ bias, real* __restrict__ running_mean,
             real* __restrict__ running_var, real* __restrict__ out, real* __restrict__ stats, int graphs,
             int channels, double eps, double momentum) {
    const Column column(mask, graphs, channels);
    const auto value = [&](int g) { return x[column.at(g, SAME ? 0 : column.model)]; };
    real mean = column.total([&](int g) { return column.share(g) * value(g); });
    real variance = column.total([&](int g) {
        const real centred = value(g) - mean;
        return column.share(g) * centred * centred;
    });
    if (!column.inside) return;
    const index_t place = column.of(1);
    if (!(column.count > 1)) {
        mean = running_mean[place], variance = running_var[place];
    } else if (column.group == 0) {
        const real unbiased = variance * (column.count / (column.count - 1));
        running_mean[place] += real(momentum) * (mean - running_mean[place]);
        running_var[place] += real(momentum) * (unbiased - running_var[place]);
    }
    const real root = 1 / sqrt(variance + real(eps)), scale = weight[place] * root;
    if (column.group == 0) stats[column.of(2)] = mean, stats[column.of(2) + channels] = root;
    for (int g = column.group; g < graphs; g += GROUPS)
        out[column.at(g, column.model)] = (value(g) - mean) * scale + bias[place];
}

// Gradients of weight and bias, [models, 2, channels], and of the features unless change is null.
extern "C" __global__ void __launch_bounds__(THREADS)
norm_backward(const real* __restrict__ x, const real* __restrict__ mask, const real* __restrict__ weight,
              const real* __restrict__ stats, const real* __restrict__ grad, real* __restrict__ change,
              real* __restrict__ terms, int graphs, int channels) {
    const Column column(mask, graphs, channels);
    const real mean = stats[column.of(2)], root = stats[column.of(2) + channels];
    const auto standard = [&](int g) { return (x[column.at(g, SAME ? 0 : column.model)] - mean) * root; };
    const auto given = [&](int g) { return grad[column.at(g, column.model)]; };
    const real slope = column.total([&](int g) { return given(g) * standard(g); });
    const real sum = column.total(given);
    if (!column.inside) return;
    if (column.group == 0) terms[column.of(2)] = slope, terms[column.of(2) + channels] = sum;
    if (!change) return;
    for (int g = column.group; g < graphs; g += GROUPS) {
        // Graphs of a model that has too few of them are in no statistics.
        const real share = column.count > 1 ? column.share(g) : 0;
        const real own = given(g) - share * (sum + standard(g) * slope);
        change[column.at(g, column.model)] = weight[column.of(1)] * root * own;
    }
}

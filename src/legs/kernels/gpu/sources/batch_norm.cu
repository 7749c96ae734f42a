// Batch norm for a stack of models, each with the statistics of its own graphs; see
// legs.nn.GraphBatchNorm. A block has a model and LANES of its channels; GROUPS of threads share the
// graphs of a batch.
//
// Compiled at run time with constants: real (float or double), THREADS of a block, SAME (whether all
// models have the same features).

#define LANES 32
#define GROUPS (THREADS / LANES)

// The sum over the groups in their order, for all threads of a channel.
__device__ real over_groups(real value) {
    __shared__ real parts[THREADS];
    __syncthreads();
    parts[threadIdx.x] = value;
    __syncthreads();
    real sum = 0;
    for (int group = 0; group < GROUPS; ++group) sum += parts[group * LANES + threadIdx.x % LANES];
    return sum;
}

struct Column {
    const real *x, *mask;
    int model, channel, group, graphs, channels;
    bool inside;
    real count;

    __device__ Column(const real* features, const real* masks, int graphs, int channels, int tiles)
        : graphs(graphs), channels(channels) {
        model = blockIdx.x / tiles;
        channel = blockIdx.x % tiles * LANES + threadIdx.x % LANES;
        group = threadIdx.x / LANES;
        inside = channel < channels;
        x = features + (SAME ? 0 : first());
        mask = masks + (long long)model * graphs;
        real own = 0;
        for (int g = group; g < graphs; g += GROUPS) own += mask[g];
        count = over_groups(own);
    }
    __device__ long long first() const { return (long long)model * graphs * channels; }
    __device__ long long place() const { return (long long)model * channels + channel; }
    __device__ real at(const real* values, int g) const {
        return inside ? values[(long long)g * channels + channel] : 0;
    }
    __device__ real share(int g) const { return mask[g] / (count > 1 ? count : 1); }
};

// Also updates the running averages; stats are the mean and one over the deviation.
extern "C" __global__ void __launch_bounds__(THREADS)
norm_forward(const real* __restrict__ x, const real* __restrict__ mask,
             const real* __restrict__ weight, const real* __restrict__ bias,
             real* __restrict__ running_mean, real* __restrict__ running_var,
             real* __restrict__ out, real* __restrict__ stats, int graphs, int channels, int tiles,
             double eps, double momentum) {
    const Column column(x, mask, graphs, channels, tiles);
    real mean = 0, variance = 0;
    for (int g = column.group; g < graphs; g += GROUPS)
        mean += column.share(g) * column.at(column.x, g);
    mean = over_groups(mean);
    for (int g = column.group; g < graphs; g += GROUPS) {
        const real centred = column.at(column.x, g) - mean;
        variance += column.share(g) * centred * centred;
    }
    variance = over_groups(variance);
    if (!column.inside) return;
    const long long place = column.place();
    if (!(column.count > 1)) {
        mean = running_mean[place], variance = running_var[place];
    } else if (column.group == 0) {
        const real unbiased = variance * (column.count / (column.count - 1));
        running_mean[place] += real(momentum) * (mean - running_mean[place]);
        running_var[place] += real(momentum) * (unbiased - running_var[place]);
    }
    const real root = 1 / sqrt(variance + real(eps));
    if (column.group == 0) {
        real* of = stats + (long long)column.model * 2 * channels + column.channel;
        of[0] = mean, of[channels] = root;
    }
    const real scale = weight[column.place()] * root;
    const real shift = bias[place];
    real* to = out + column.first() + column.channel;
    for (int g = column.group; g < graphs; g += GROUPS)
        to[(long long)g * channels] = (column.at(column.x, g) - mean) * scale + shift;
}

// Gradients of weight and bias, [models, 2, channels], and of the features unless change is null.
extern "C" __global__ void __launch_bounds__(THREADS)
norm_backward(const real* __restrict__ grad, const real* __restrict__ x,
              const real* __restrict__ mask, const real* __restrict__ weight,
              const real* __restrict__ stats, real* __restrict__ change, real* __restrict__ terms,
              int graphs, int channels, int tiles) {
    const Column column(x, mask, graphs, channels, tiles);
    const long long two = (long long)column.model * 2 * channels + column.channel;
    const real mean = column.inside ? stats[two] : 0;
    const real root = column.inside ? stats[two + channels] : 0;
    const real* given = grad + column.first();
    real slope = 0, sum = 0;
    for (int g = column.group; g < graphs; g += GROUPS) {
        slope += column.at(given, g) * (column.at(column.x, g) - mean) * root;
        sum += column.at(given, g);
    }
    slope = over_groups(slope), sum = over_groups(sum);
    if (!column.inside) return;
    if (column.group == 0) terms[two] = slope, terms[two + channels] = sum;
    if (!change) return;
    const real scale = weight[column.place()] * root;
    real* to = change + column.first() + column.channel;
    for (int g = column.group; g < graphs; g += GROUPS) {
        const real standard = (column.at(column.x, g) - mean) * root;
        // Graphs of a model that has too few of them are in no statistics.
        const real share = column.count > 1 ? column.share(g) : 0;
        to[(long long)g * channels] =
            scale * (column.at(given, g) - share * (sum + standard * slope));
    }
}

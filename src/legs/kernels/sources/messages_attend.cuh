// Attention over neighbours and the node itself, and its gradient; see messages.cuh.
//
// A row of u holds the states [HEADS, CHANNELS], then the HEADS scores of a node as a sender, then
// those as a receiver: e_ij = leaky(sender_j + receiver_i), a_ij = softmax over j,
// out_i = sum_j a_ij h_j. For the gradient g of out, with D_i = sum_j a_ij g_i.h_j,
//     d e_ij = a_ij (g_i.h_j - D_i) leaky'_ij,
//     d receiver_i = sum_j d e_ij, d sender_j = sum_i d e_ij, d h_j = sum_i a_ij g_i.
// Edges go both ways, so that all of these are sums over the neighbours of a node. A lane has one
// piece of one head; what sums over a head's channels is linear, and is summed over lanes at the end.
//
// WEIGHTED: a neighbour counts as often as its weight says, the node itself once. COPIES: a node
// stands for several that are alike, n_i. Gradients come, and are wanted, for all of them together:
// n_i times that of one. What a sender gets from its neighbours is that of one, and weights are
// numbers of neighbours of one: so it is g_i / n_i that is sent, and the sum is multiplied by n_j.

#define FEATURES (HEADS * CHANNELS)
#define STRIDE (FEATURES + 2 * HEADS)
#define HEAD_LANES (CHANNELS / WIDTH)
#define LOWEST real(-1e30)

struct Attention {
    const int* col;
    const real *weight, *u;
    real slope;
    int i, lane, head;

    __device__ void set(const int* columns, const real* weights, const real* states, int model,
                        int rows, double leak) {
        col = columns, weight = weights, slope = real(leak);
        u = states + (long long)model * rows * STRIDE;
        lane = threadIdx.x % LANES, head = lane / HEAD_LANES;
    }
    __device__ Piece state(int j) const {
        return *(const Piece*)(u + (long long)j * STRIDE + lane * WIDTH);
    }
    __device__ real sender(int j) const { return u[(long long)j * STRIDE + FEATURES + head]; }
    __device__ real receiver(int j) const { return u[(long long)j * STRIDE + FEATURES + HEADS + head]; }
    __device__ real counted(int e) const { return WEIGHTED ? weight[e] : real(1); }
    __device__ real leaky(real e) const { return e > 0 ? e : slope * e; }
    __device__ real slant(real e) const { return e > 0 ? real(1) : slope; }
    __device__ static real dot(const Piece& a, const Piece& b) {
        real sum = 0;
#pragma unroll
        for (int w = 0; w < WIDTH; ++w) sum += a.part[w] * b.part[w];
        return sum;
    }
};

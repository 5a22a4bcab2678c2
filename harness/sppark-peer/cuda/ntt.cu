// Transforms over the scalar field of BLS12-381 of values that stay on the device, by sppark.

#include <cuda.h>
#include <ff/bls12-381.hpp>

// These kernels are no templates, and others that include the header have them too.
#define bit_rev_permutation peer_bit_rev_permutation
#define LDE_distribute_powers peer_LDE_distribute_powers
#define LDE_spread_distribute_powers peer_LDE_spread_distribute_powers
#include <ntt/ntt.cuh>

#include "host.cuh"

#ifndef __CUDA_ARCH__

struct values_t {
    const gpu_t& gpu;
    uint32_t log_n;
    fr_t* on_device;

    values_t(int device, const fr_t* values, uint32_t log_n)
        : gpu(select_gpu(gpu_index(device))), log_n(log_n)
    {
        on_device = static_cast<fr_t*>(gpu.Dmalloc(sizeof(fr_t) << log_n));
        gpu.HtoD(on_device, values, size_t(1) << log_n);
        gpu.sync();
    }
    ~values_t()
    {   gpu.Dfree(on_device);   }
};

// Puts 2^log_n values, Montgomery form, on a device.
extern "C" RustError::by_value sppark_peer_ntt_new(values_t** values, int device, const fr_t* from, uint32_t log_n)
{
    return caught([&]() -> RustError {
        *values = new values_t{device, from, log_n};
        return RustError{};
    });
}

// Transforms them in place: natural order in, bit-reversed order out. Waits for the end.
extern "C" RustError::by_value sppark_peer_ntt_run(values_t* values)
{
    return caught([&]() -> RustError {
        values->gpu.select();
        NTT::Base_dev_ptr(values->gpu, values->on_device, values->log_n, NTT::InputOutputOrder::NR,
                          NTT::Direction::forward, NTT::Type::standard);
        values->gpu.sync();
        return RustError{};
    });
}

// Copies 2^log_n values back.
extern "C" RustError::by_value sppark_peer_ntt_read(values_t* values, fr_t* to)
{
    return caught([&]() -> RustError {
        values->gpu.select();
        values->gpu.DtoH(to, values->on_device, size_t(1) << values->log_n);
        values->gpu.sync();
        return RustError{};
    });
}

extern "C" void sppark_peer_ntt_drop(values_t* values)
{
    (void)caught([&]() -> RustError {
        values->gpu.select();
        delete values;
        return RustError{};
    });
}

#endif

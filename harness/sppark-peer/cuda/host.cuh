// What every call from Rust needs: the device by its CUDA number, and an end for exceptions.

// The host's half: sppark has no types of the host in the device's.
#ifndef __CUDA_ARCH__

#include <exception>
#include <util/exception.cuh>
#include <util/gpu_t.cuh>
#include <util/rusterror.h>

// sppark's number of a CUDA device, which differs where sppark cannot use one of them.
static int gpu_index(int device)
{
    for (const gpu_t* gpu: all_gpus())
        if (gpu->cid() == device)
            return gpu->id();
    CUDA_OK(cudaErrorNoDevice);
    return -1;
}

// What went wrong, as Rust takes it: 0 and no message if nothing did. The message is the caller's to free. Nothing is
// thrown into Rust.
template<class Work> static RustError::by_value caught(Work work)
{
    try {
        return work();
    } catch (const cuda_error& error) {
        return RustError{error.code(), error.what()};
    } catch (const std::exception& error) {
        return RustError{-1, error.what()};
    }
}

#endif

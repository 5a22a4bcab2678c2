// A product over points that stay on the device, as C functions. Included once a group, after the group's types and
// sppark's `msm/pippenger.cuh`.

#include "host.cuh"

#ifndef __CUDA_ARCH__

typedef msm_t<bucket_t, point_t, affine_t, scalar_t> product_t;

// Puts points on a device and takes its memory. Waits for the copy: a product runs on streams that do not.
static RustError::by_value product_new(product_t** product, int device, const affine_t* points, size_t count)
{
    return caught([&]() -> RustError {
        int index = gpu_index(device);
        *product = new product_t{points, count, sizeof(affine_t), index};
        select_gpu(index).sync();
        return RustError{};
    });
}

// The sum of scalars times points, scalars on the host and in Montgomery form. As many scalars as there are points.
static RustError::by_value product_run(product_t* product, int device, point_t* sum, const scalar_t* scalars,
                                       size_t count)
{
    return caught([&]() -> RustError {
        select_gpu(gpu_index(device));
        const affine_t* on_device = nullptr;
        return product->invoke(*sum, on_device, count, scalars, true);
    });
}

static void product_drop(product_t* product, int device)
{
    (void)caught([&]() -> RustError {
        select_gpu(gpu_index(device));
        delete product;
        return RustError{};
    });
}

#endif

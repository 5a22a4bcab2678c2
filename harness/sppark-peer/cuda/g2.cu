// Products in G2 of BLS12-381, by sppark.

#include <cuda.h>
#include <ff/bls12-381-fp2.hpp>
#include <ec/jacobian_t.hpp>
#include <ec/xyzz_t.hpp>

using namespace bls12_381;

// Names that sppark's templates are instantiated under.
typedef jacobian_t<fp2_t> point_t;
typedef xyzz_t<fp2_t> bucket_t;
typedef bucket_t::affine_t affine_t;
typedef fr_t scalar_t;

// This kernel is no template, and others that include the header have one of the same name. What else speaks of sorting is
// read before.
#include <algorithm>
#include <cooperative_groups.h>
#include <util/gpu_t.cuh>
#define sort sort_g2
#include <msm/pippenger.cuh>
#undef sort

#include "product.cuh"

#ifndef __CUDA_ARCH__

extern "C" RustError::by_value sppark_peer_g2_new(product_t** product, int device, const affine_t* points,
                                                size_t count)
{ return product_new(product, device, points, count); }

extern "C" RustError::by_value sppark_peer_g2_run(product_t* product, int device, point_t* sum,
                                                const scalar_t* scalars, size_t count)
{ return product_run(product, device, sum, scalars, count); }

extern "C" void sppark_peer_g2_drop(product_t* product, int device)
{ product_drop(product, device); }

#endif

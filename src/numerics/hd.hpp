// Functions of this folder run on the host and on devices.
#pragma once

#if defined(__CUDACC__) || defined(__HIP__)
#define SAMEBITS_HD __host__ __device__
#else
#define SAMEBITS_HD
#endif

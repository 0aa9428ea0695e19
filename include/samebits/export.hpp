// SAMEBITS_API marks what the library defines for others; everything else stays inside, for the library is
// compiled with hidden visibility. It stands before functions: a class that carried it would export its
// private nested types too. Only polymorphic classes carry it, so that their type is one across libraries.
// Static and shared libraries are made of the same objects, so it does not depend on which one is used.
#pragma once

#if defined(__GNUC__)
#define SAMEBITS_API __attribute__((visibility("default")))
#else
#define SAMEBITS_API
#endif

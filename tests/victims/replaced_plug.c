/* build: cc -O2 -shared -fPIC -DVERSION=version_1
 * A plug-in: `work` has the function VERSION burn so many units (burn.h) and adds the CPU time to `seconds`. */
#include "burn.h"
#define BURN(name) BURNER(name)
BURN(VERSION)
uint64_t work(double units, double *seconds) { return VERSION(units, seconds) + 1; }

/* build: cc -O2 -shared -fPIC
 * the plugin of dlloop and churn */
#include "burn.h"
__attribute__((visibility("default"))) double plugin_burn(long units);
BURNER(plugin_inner)
double plugin_burn(long units) {
    double s = 0;
    burn_sink += plugin_inner(units, &s);
    return s;
}

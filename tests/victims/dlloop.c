/* build: cc -O2 -ldl
 * dlloop PLUGIN ROUNDS: loads the plugin, burns in it, unloads it, again and again. */
#include "burn.h"
#include <dlfcn.h>
BURNER(in_main)
int main(int argc, char **argv) {
    if (argc < 3) return 2;
    double in_plugin = 0, own = 0;
    for (int i = atoi(argv[2]); i > 0; i--) {
        void *h = dlopen(argv[1], RTLD_NOW);
        if (!h) { fprintf(stderr, "%s\n", dlerror()); return 1; }
        double (*burn)(long) = (double (*)(long))dlsym(h, "plugin_burn");
        in_plugin += burn(60);
        dlclose(h);
        burn_sink += in_main(20, &own);
    }
    printf("truth plugin_inner %.6f\n", in_plugin);
    TRUTH(in_main, own);
    return 0;
}

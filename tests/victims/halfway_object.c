/* build: cc -shared -fPIC -O2 -nostdlib -Wl,-e,turns
 * What halfway.c maps: its unwind data are in a part of their own behind the code. */
void turns(long n) {
    for (volatile long i = 0; i < n; i++) {}
}

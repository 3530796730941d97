/* build: cc -m32 -nostdlib -static -O1
 * rights32: ends with 0 if it is root's, else with 7. Without libraries: few machines have those of 32 bits. */
__asm__(".globl _start\n"
        "_start: mov $201, %eax\n" /* geteuid32 */
        "int $0x80\n"
        "mov %eax, %ebx\n"
        "test %ebx, %ebx\n"
        "jz 1f\n"
        "mov $7, %ebx\n"
        "1: mov $1, %eax\n" /* exit */
        "int $0x80\n");

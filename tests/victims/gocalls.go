// Go program in which Go calls C and C calls Go, three deep, for the given number of seconds or one; prints "done". As a library it
// exports EnterGo.
package main

/*
extern long EnterGo(long, long);
static volatile long sink;

__attribute__((noinline)) static long leaf(long n) {
	for (long i = 0; i < n; i++) sink += i;
	return sink;
}

__attribute__((noinline)) static long enter_c(long depth, long n) {
	long r = leaf(n);
	if (depth > 0) r += EnterGo(depth - 1, n);
	return r + sink;
}
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

//go:noinline
func goLeaf(n C.long) C.long {
	s := C.long(0)
	for i := C.long(0); i < n; i++ {
		s += i * i % 7
	}
	return s
}

//export EnterGo
//go:noinline
func EnterGo(depth, n C.long) C.long {
	r := goLeaf(n)
	r += C.enter_c(depth, n)
	return r + 1
}

func main() {
	began, s, seconds := time.Now(), C.long(0), 1
	if len(os.Args) > 1 {
		seconds, _ = strconv.Atoi(os.Args[1])
	}
	for time.Since(began) < time.Duration(seconds)*time.Second {
		s += EnterGo(2, 300000)
	}
	if s != 0 {
		fmt.Println("done")
	}
}

// Go program for pct attach: goroutines that pass numbers on, sort, allocate and sleep until SIGTERM. Prints what was wrong and
// that it got on; exit status 5. Small stacks that move, and handlers for every signal.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"sort"
	"sync/atomic"
	"syscall"
	"time"
)

var bad, rounds int64

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	numbers := make(chan int)
	for w := 0; w < 8; w++ {
		go func() {
			for n := range numbers {
				if fib(15) != 610 {
					atomic.AddInt64(&bad, 1)
				}
				list := make([]int, 300)
				for i := range list {
					list[i] = (i*7919 + n) % 1009
				}
				sort.Ints(list)
				if !sort.IntsAreSorted(list) {
					atomic.AddInt64(&bad, 1)
				}
				atomic.AddInt64(&rounds, 1)
			}
		}()
	}
	fmt.Println("started")
	for n := 0; ; n++ {
		select {
		case numbers <- n:
		case <-stop:
			got := "did nothing"
			if atomic.LoadInt64(&rounds) > 0 {
				got = "went on"
			}
			fmt.Println("bad", atomic.LoadInt64(&bad), "eintr 0", got)
			os.Exit(5)
		}
		if n%100 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

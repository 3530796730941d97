// Go program that computes on all processors for some tenths of a second and prints what it got. Its runtime handles every signal.
package main

import "fmt"

func sum(n int, to chan<- float64) {
	x := 0.0
	for i := 0; i < n; i++ {
		x += float64(i % 3)
	}
	to <- x
}

func main() {
	sums := make(chan float64)
	for i := 0; i < 3; i++ {
		go sum(300000000, sums)
	}
	fmt.Println(<-sums + <-sums + <-sums)
}

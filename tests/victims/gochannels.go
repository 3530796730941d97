// Go program of goroutines that pass numbers to each other, make garbage and grow their stacks, for about a second; prints "done".
package main

import (
	"fmt"
	"sync"
	"time"
)

type node struct{ left, right *node }

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

//go:noinline
func grow(n int) int {
	var room [256]byte
	if n == 0 {
		return int(room[n])
	}
	room[n&255] = 1
	return grow(n-1) + int(room[n&255])
}

func main() {
	began := time.Now()
	lasts := func() bool { return time.Since(began) < time.Second }
	var all sync.WaitGroup
	for k := 0; k < 3; k++ {
		there, back := make(chan bool), make(chan bool)
		all.Add(3)
		go func() {
			for lasts() {
				there <- true
				<-back
			}
			close(there)
			all.Done()
		}()
		go func() {
			for range there {
				back <- true
			}
			all.Done()
		}()
		go func() {
			for lasts() {
				tree(12)
				grown := make(chan int)
				for j := 0; j < 20; j++ {
					go func() { grown <- grow(300) }()
				}
				for j := 0; j < 20; j++ {
					<-grown
				}
			}
			all.Done()
		}()
	}
	all.Wait()
	fmt.Println("done")
}

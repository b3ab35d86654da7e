// Package simulation plays the relay against scripted surroundings in an order that a seed decides.
package simulation

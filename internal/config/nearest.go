package config

import "strings"

// nearest returns the candidate that takes the fewest edits to become name. What people do more
// often than mistyping counts as one edit: to leave out the section, or the end of the name.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", 0
	lower := strings.ToLower(name)
	for _, c := range candidates {
		lc := strings.ToLower(c)
		d := distance(lower, lc)
		for i, r := range lc {
			if r == '.' || r == '_' {
				d = min(d, 1+distance(lower, lc[:i]))
			}
		}
		if i := strings.LastIndexByte(lc, '.'); i >= 0 && !strings.Contains(lower, ".") {
			d = min(d, 1+distance(lower, lc[i+1:]))
		}
		if best == "" || d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is the number of inserted, deleted and replaced characters between a and b.
func distance(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	row := make([]int, len(rb)+1)
	for j := range row {
		row[j] = j
	}
	for i, ca := range ra {
		diagonal := row[0]
		row[0] = i + 1
		for j, cb := range rb {
			cost := 1
			if ca == cb {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(rb)]
}

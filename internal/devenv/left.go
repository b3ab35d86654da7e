package devenv

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

// made are the folders that this process has made, also those that are gone.
var made struct {
	sync.Mutex
	folders []string
}

func noteFolder(path string) {
	made.Lock()
	defer made.Unlock()
	made.folders = append(made.folders, path)
}

// Left lists what this process has started and not ended: folders of servers that weren't
// removed, children that run, and processes that work in such a folder although their parent
// has ended. A suite that is over leaves nothing.
func Left() []string {
	made.Lock()
	defer made.Unlock()
	var left []string
	for _, path := range made.folders {
		if _, err := os.Stat(path); err == nil {
			left = append(left, "the folder "+path)
		}
	}
	pids := slices.DeleteFunc(children(os.Getpid()), ended)
	for _, pid := range workingIn(made.folders) {
		if !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		left = append(left, fmt.Sprintf("process %d (%s)", pid, commandLine(pid)))
	}
	slices.Sort(left)
	return left
}

// within says whether a path is one of the folders or below one.
func within(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") })
}

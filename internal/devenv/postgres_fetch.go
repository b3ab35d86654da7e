package devenv

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/xi2/xz"
)

// fetched are the server programs that zonky.io publishes at Maven Central for each major
// version (io.zonky.test.postgres:embedded-postgres-binaries-*), the newest that is there
// for Linux and macOS on both amd64 and arm64. Alpine on arm64 lacks some.
var fetched = map[int]string{14: "14.23.0", 15: "15.19.0", 16: "16.15.0", 17: "17.11.0", 18: "18.4.0"}

// newestFetched is the version taken where none is asked for.
const newestFetched = 18

// fetchPostgres returns the programs of a major version (0 is the newest) from Maven
// Central. The download is kept in the user's cache, and the unpacked programs too, except
// where we are root: then they lie in work, because another user runs them.
func fetchPostgres(ctx context.Context, major int, work string, progress func(string)) (postgresPrograms, error) {
	if major == 0 {
		major = newestFetched
	}
	version, ok := fetched[major]
	if !ok {
		return postgresPrograms{}, fmt.Errorf("fetch Postgres %d: no such version is known", major)
	}
	cache := cacheFolder(work)
	archive := filepath.Join(cache, "postgres-"+version+"-jar")
	err := onceInto(ctx, archive, func(dir string) error {
		artifact := "embedded-postgres-binaries-" + platform(runtime.GOOS, runtime.GOARCH, exists("/etc/alpine-release"))
		address := fmt.Sprintf("%s/io/zonky/test/postgres/%s/%s/%s-%s.jar", mavenCentral, artifact, version, artifact, version)
		return download(ctx, address, filepath.Join(dir, "programs.jar"), func(percent int) {
			progress(fmt.Sprintf("downloading Postgres %s: %d %%", version, percent))
		})
	})
	if err != nil {
		return postgresPrograms{}, fmt.Errorf("fetch Postgres %s: %w", version, err)
	}
	programs := filepath.Join(cache, "postgres-"+version)
	if os.Getuid() == 0 {
		programs = filepath.Join(work, "programs")
	}
	err = onceInto(ctx, programs, func(dir string) error {
		progress("unpacking Postgres " + version)
		return unpack(ctx, filepath.Join(archive, "programs.jar"), dir)
	})
	if err != nil {
		return postgresPrograms{}, fmt.Errorf("unpack Postgres %s: %w", version, err)
	}
	p, err := inspectPostgres(filepath.Join(programs, "bin"))
	if err != nil {
		return postgresPrograms{}, fmt.Errorf("run the fetched Postgres %s: %w", version, err)
	}
	p.origin = "fetched from Maven Central"
	return p, nil
}

// platform is the part of the artifact's name that says for which system it is.
func platform(system, arch string, alpine bool) string {
	if arch == "arm64" {
		arch = "arm64v8"
	}
	if system == "linux" && alpine {
		arch += "-alpine"
	}
	return system + "-" + arch
}

// unpack extracts the .txz in a jar into dir, readable for everybody whatever the umask is.
func unpack(ctx context.Context, jar, dir string) error {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return fmt.Errorf("open the archive %s: %w", jar, err)
	}
	defer z.Close()
	i := slices.IndexFunc(z.File, func(f *zip.File) bool { return path.Ext(f.Name) == ".txz" })
	if i < 0 {
		return fmt.Errorf("open the archive %s: it holds no .txz", jar)
	}
	f := z.File[i]
	r, err := f.Open()
	if err != nil {
		return fmt.Errorf("open %s in the archive: %w", f.Name, err)
	}
	defer r.Close()
	x, err := xz.NewReader(r, 0)
	if err != nil {
		return fmt.Errorf("decompress %s: %w", f.Name, err)
	}
	return untar(ctx, tar.NewReader(x), dir)
}

// untar extracts folders, files and symbolic links into dir, and never out of it.
func untar(ctx context.Context, t *tar.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for ctx.Err() == nil {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return os.Chmod(dir, 0o755)
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		name := strings.TrimSuffix(path.Clean(h.Name), "/")
		if err := untarOne(root, name, h, t); err != nil {
			return fmt.Errorf("extract %s: %w", h.Name, err)
		}
	}
	return context.Cause(ctx)
}

func untarOne(root *os.Root, name string, h *tar.Header, content io.Reader) error {
	if !filepath.IsLocal(name) {
		return errors.New("its name leads out of the archive")
	}
	if name == "." {
		return nil
	}
	if err := mkdirAll(root, path.Dir(name)); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return mkdirAll(root, name)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		mode := fs.FileMode(0o644)
		if h.Mode&0o100 != 0 {
			mode = 0o755
		}
		return errors.Join(err, f.Chmod(mode), f.Close())
	}
	return nil // nothing else is in these archives
}

// mkdirAll makes a folder with its parents, open to everybody whatever the umask is.
func mkdirAll(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if _, err := root.Stat(name); err == nil {
		return nil
	}
	if err := mkdirAll(root, path.Dir(name)); err != nil {
		return err
	}
	if err := root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return root.Chmod(name, 0o755)
}

package nginx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"taper.dev/taper/internal/lab/process"
)

// installation is an nginx with what it needs to run Lua.
type installation struct {
	binary               string
	ndkModule, luaModule string
	// lua is the folder of Lua's own modules, such as resty/core.lua.
	lua string
	// libraries are the folders of shared libraries that the system does not
	// search: none for an nginx that is installed.
	libraries []string
}

// locate finds the binary, which may be a command or a path, and what belongs to
// it. The places are Debian's, seen from the binary, so that packages that were
// unpacked into a folder do as well as installed ones.
func locate(name string) (installation, error) {
	binary, err := process.Lookup(name, `run "make tools", or name it with --nginx`)
	if err != nil {
		return installation{}, err
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return installation{}, fmt.Errorf("locating nginx: %w", err)
	}
	if binary, err = filepath.EvalSymlinks(binary); err != nil {
		return installation{}, fmt.Errorf("locating nginx: %w", err)
	}
	usr := filepath.Dir(filepath.Dir(binary)) // of usr/sbin/nginx
	in := installation{
		binary:    binary,
		ndkModule: filepath.Join(usr, "lib/nginx/modules/ndk_http_module.so"),
		luaModule: filepath.Join(usr, "lib/nginx/modules/ngx_http_lua_module.so"),
		lua:       filepath.Join(usr, "share/lua/5.1"),
	}
	if usr != "/usr" {
		in.libraries = libraries(filepath.Dir(usr))
	}
	return in, in.check()
}

// libraries returns the folders below root where Debian packages put shared
// libraries, such as usr/lib/x86_64-linux-gnu.
func libraries(root string) []string {
	system := os.DirFS(root)
	var dirs []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*"} {
		found, _ := fs.Glob(system, pattern) // the only error is a bad pattern
		for _, dir := range found {
			dirs = append(dirs, filepath.Join(root, dir))
		}
	}
	return dirs
}

// check names the package of what is missing.
func (in installation) check() error {
	for _, needed := range []struct{ file, debian string }{
		{in.luaModule, "libnginx-mod-http-lua"},
		{in.ndkModule, "libnginx-mod-http-ndk"},
		{filepath.Join(in.lua, "resty/core.lua"), "lua-resty-core"},
		{filepath.Join(in.lua, "resty/lrucache.lua"), "lua-resty-lrucache"},
	} {
		_, err := os.Stat(needed.file)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s cannot run Lua: %s is missing, it comes with the Debian package %s", in.binary, needed.file, needed.debian)
		}
		if err != nil {
			return fmt.Errorf("%s cannot run Lua: %w", in.binary, err)
		}
	}
	return nil
}

// environment is what nginx inherits: the way to its libraries. Anything else
// could only change what runs, such as LUA_PATH, or NGINX, in which nginx
// expects the sockets of a predecessor.
func (in installation) environment() []string {
	dirs := in.libraries
	if ours := os.Getenv("LD_LIBRARY_PATH"); ours != "" {
		dirs = append(dirs[:len(dirs):len(dirs)], ours)
	}
	if len(dirs) == 0 {
		return []string{}
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(dirs, ":")}
}

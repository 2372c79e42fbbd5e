package nginx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// installation is an nginx with what it needs to run Lua.
type installation struct {
	binary  string
	modules string // folder of ngx_http_lua_module.so
	lua     string // folder of resty/core.lua
	// libraries are folders of shared libraries to look in before the system's;
	// none for an nginx that is installed.
	libraries []string
}

// locate finds what belongs to the binary. The folders are Debian's, taken
// relative to the binary, so that an unpacked package works as an installed one.
func locate(opts Options) (installation, error) {
	binary, err := filepath.EvalSymlinks(opts.Binary)
	if err != nil {
		return installation{}, fmt.Errorf("finding nginx: %w", err)
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return installation{}, fmt.Errorf("finding nginx: %w", err)
	}
	usr := filepath.Dir(filepath.Dir(binary)) // the binary is in usr/sbin
	in := installation{binary: binary, modules: opts.ModuleDir, lua: opts.LuaPath}
	if in.modules == "" {
		in.modules = filepath.Join(usr, "lib/nginx/modules")
	}
	if in.lua == "" {
		in.lua = filepath.Join(usr, "share/lua/5.1")
	}
	if usr != "/usr" {
		if in.libraries, err = libraries(filepath.Dir(usr)); err != nil {
			return installation{}, err
		}
	}
	return in, in.check()
}

// libraries returns the folders below root that Debian packages put shared
// libraries in, such as usr/lib/x86_64-linux-gnu.
func libraries(root string) ([]string, error) {
	var found []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu*", "lib/*-linux-gnu*"} {
		dirs, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, fmt.Errorf("looking for shared libraries in %s: %w", root, err)
		}
		found = append(found, dirs...)
	}
	return found, nil
}

// check names the package of what is missing.
func (in installation) check() error {
	needed := []struct{ file, pkg string }{
		{filepath.Join(in.modules, "ngx_http_lua_module.so"), "libnginx-mod-http-lua"},
		{filepath.Join(in.modules, "ndk_http_module.so"), "libnginx-mod-http-ndk"},
		{filepath.Join(in.lua, "resty/core.lua"), "lua-resty-core"},
	}
	for _, n := range needed {
		_, err := os.Stat(n.file)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("nginx %s cannot run Lua: %s is missing, the Debian package %s brings it", in.binary, n.file, n.pkg)
		}
		if err != nil {
			return fmt.Errorf("nginx %s cannot run Lua: %w", in.binary, err)
		}
	}
	return nil
}

// environment is ours, with the installation's own libraries first.
func (in installation) environment() []string {
	env := os.Environ()
	if len(in.libraries) == 0 {
		return env
	}
	path := strings.Join(in.libraries, ":")
	if inherited := os.Getenv("LD_LIBRARY_PATH"); inherited != "" {
		path += ":" + inherited
	}
	return append(env, "LD_LIBRARY_PATH="+path)
}

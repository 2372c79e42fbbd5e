package nginx

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/goldentest"
	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/model"
)

var update = flag.Bool("update", false, "write the golden files")

// unpacked makes an installation of empty files below a folder, and a link to
// its binary.
func unpacked(t *testing.T) (root, link string) {
	t.Helper()
	root = t.TempDir()
	for _, file := range []string{
		"usr/sbin/nginx",
		"usr/lib/nginx/modules/ndk_http_module.so",
		"usr/lib/nginx/modules/ngx_http_lua_module.so",
		"usr/share/lua/5.1/resty/core.lua",
		"usr/share/lua/5.1/resty/lrucache.lua",
		"usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2",
		"lib/x86_64-linux-gnu/libpcre.so.3",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link = filepath.Join(t.TempDir(), "nginx")
	if err := os.Symlink(filepath.Join(root, "usr/sbin/nginx"), link); err != nil {
		t.Fatal(err)
	}
	return root, link
}

func TestLocateUnpacked(t *testing.T) {
	root, link := unpacked(t)
	t.Setenv("PATH", filepath.Dir(link))
	want := installation{
		binary:    root + "/usr/sbin/nginx",
		ndkModule: root + "/usr/lib/nginx/modules/ndk_http_module.so",
		luaModule: root + "/usr/lib/nginx/modules/ngx_http_lua_module.so",
		lua:       root + "/usr/share/lua/5.1",
		libraries: []string{root + "/usr/lib/x86_64-linux-gnu", root + "/lib/x86_64-linux-gnu"},
	}
	for _, name := range []string{"nginx", link, want.binary} {
		got, err := locate(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(installation{})); diff != "" {
			t.Errorf("locate(%s) (-want +got):\n%s", name, diff)
		}
	}
}

func TestLocateNamesWhatIsMissing(t *testing.T) {
	for file, debian := range map[string]string{
		"usr/lib/nginx/modules/ngx_http_lua_module.so": "libnginx-mod-http-lua",
		"usr/lib/nginx/modules/ndk_http_module.so":     "libnginx-mod-http-ndk",
		"usr/share/lua/5.1/resty/core.lua":             "lua-resty-core",
		"usr/share/lua/5.1/resty/lrucache.lua":         "lua-resty-lrucache",
	} {
		root, link := unpacked(t)
		path := filepath.Join(root, file)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		_, err := Start(t.Context(), nil, Options{Binary: link, Dir: t.TempDir()})
		want := root + "/usr/sbin/nginx cannot run Lua: " + path + " is missing, it comes with the Debian package " + debian
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	t.Run("binary", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := Start(t.Context(), nil, Options{Binary: "nginx", Dir: t.TempDir()})
		if want := `nginx not found in PATH: run "make tools", or name it with --nginx`; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	})
}

func TestEnvironment(t *testing.T) {
	own := []string{"/a", "/b"}
	tests := []struct {
		name, inherited string
		libraries       []string
		want            []string
	}{
		{"installed", "", nil, []string{}},
		{"installed, libraries elsewhere", "/theirs", nil, []string{"LD_LIBRARY_PATH=/theirs"}},
		{"unpacked", "", own, []string{"LD_LIBRARY_PATH=/a:/b"}},
		{"unpacked, libraries elsewhere", "/theirs", own, []string{"LD_LIBRARY_PATH=/a:/b:/theirs"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("LD_LIBRARY_PATH", test.inherited)
			got := installation{libraries: test.libraries}.environment()
			// Nil would be our whole environment.
			if got == nil || !slices.Equal(got, test.want) {
				t.Errorf("got %#v, want %#v", got, test.want)
			}
		})
	}
}

func TestRender(t *testing.T) {
	in := installation{ndkModule: "/m/ndk.so", luaModule: "/m/lua.so", lua: "/usr/share/lua/5.1"}
	strange := installation{ndkModule: `/a "b" \c/ndk.so`, luaModule: `/a "b" \c/lua.so`, lua: `/a "b" \c`}
	tests := []struct {
		golden   string
		in       installation
		capacity float64
		asRoot   bool
	}{
		{"user.conf", in, 2, false},
		{"root.conf", in, 1, true},
		{"quoted.conf", strange, 2, false},
	}
	for _, test := range tests {
		t.Run(test.golden, func(t *testing.T) {
			m := fleet.Member{Endpoint: model.Endpoint{Address: "127.0.1.15:8080", Capacity: test.capacity}, Fib: 29}
			got, err := render(m, test.in, test.asRoot)
			if err != nil {
				t.Fatal(err)
			}
			goldentest.Holds(t, filepath.Join("testdata", test.golden), string(got), *update)
		})
	}
}

func TestSocketPathTooLong(t *testing.T) {
	all := members(t, 20)
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 25))
	_, err := Start(t.Context(), all, Options{Binary: binary(t), Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "TMPDIR") || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want an error that names the path and TMPDIR", err)
	}
}

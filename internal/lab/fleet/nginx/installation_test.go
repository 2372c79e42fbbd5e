package nginx

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/model"
)

// write makes an empty file with its folders.
func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
}

// unpacked makes an installation of empty files.
func unpacked(t *testing.T) (root string) {
	root = t.TempDir()
	for _, file := range []string{
		"usr/sbin/nginx",
		"usr/lib/nginx/modules/ngx_http_lua_module.so",
		"usr/lib/nginx/modules/ndk_http_module.so",
		"usr/share/lua/5.1/resty/core.lua",
		"usr/lib/x86_64-linux-gnu/libluajit-5.1.so.2",
		"lib/x86_64-linux-gnu/libpcre.so.3",
	} {
		write(t, filepath.Join(root, file))
	}
	return root
}

func TestLocate(t *testing.T) {
	root := unpacked(t)
	link := filepath.Join(t.TempDir(), "nginx")
	if err := os.Symlink(filepath.Join(root, "usr/sbin/nginx"), link); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, "ngx_http_lua_module.so"))
	write(t, filepath.Join(elsewhere, "ndk_http_module.so"))
	write(t, filepath.Join(elsewhere, "resty/core.lua"))

	want := installation{
		binary:    root + "/usr/sbin/nginx",
		modules:   root + "/usr/lib/nginx/modules",
		lua:       root + "/usr/share/lua/5.1",
		libraries: []string{root + "/usr/lib/x86_64-linux-gnu", root + "/lib/x86_64-linux-gnu"},
	}
	named := want
	named.modules, named.lua = elsewhere, elsewhere
	tests := []struct {
		name string
		opts Options
		want installation
	}{
		{"through a symlink", Options{Binary: link}, want},
		{"folders named", Options{Binary: link, ModuleDir: elsewhere, LuaPath: elsewhere}, named},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := locate(test.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(installation{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLocateNamesThePackageOfWhatIsMissing(t *testing.T) {
	for file, pkg := range map[string]string{
		"usr/lib/nginx/modules/ngx_http_lua_module.so": "libnginx-mod-http-lua",
		"usr/lib/nginx/modules/ndk_http_module.so":     "libnginx-mod-http-ndk",
		"usr/share/lua/5.1/resty/core.lua":             "lua-resty-core",
	} {
		root := unpacked(t)
		path := filepath.Join(root, file)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		_, err := Start(t.Context(), nil, Options{Binary: root + "/usr/sbin/nginx", Dir: root})
		want := "nginx " + root + "/usr/sbin/nginx cannot run Lua: " + path + " is missing, the Debian package " + pkg + " brings it"
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestLocateWithoutBinary(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nginx")
	if _, err := locate(Options{Binary: missing}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v, want an error that names %s", err, missing)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "/theirs")
	last := func(in installation) string {
		env := exec.Cmd{Env: in.environment()}
		for _, v := range env.Environ() { // the last of equal names counts
			if path, ok := strings.CutPrefix(v, "LD_LIBRARY_PATH="); ok {
				return path
			}
		}
		return ""
	}
	if got := last(installation{}); got != "/theirs" {
		t.Errorf("installed: LD_LIBRARY_PATH=%s", got)
	}
	if got := last(installation{libraries: []string{"/a", "/b"}}); got != "/a:/b:/theirs" {
		t.Errorf("unpacked: LD_LIBRARY_PATH=%s", got)
	}
}

func TestRender(t *testing.T) {
	install := installation{modules: "/usr/lib/nginx/modules", lua: "/usr/share/lua/5.1"}
	m := fleet.Member{Endpoint: model.Endpoint{Address: "127.0.1.15:8080"}, Fib: 29}
	for golden, asRoot := range map[string]bool{"root.conf": true, "user.conf": false} {
		got, err := render(m, install, asRoot)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", golden)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got), -update to accept:\n%s", golden, diff)
		}
	}
}

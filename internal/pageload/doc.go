// Package pageload finds out how many people can load a page, and which hop is full when
// no more can.
//
// In goes the address of a page behind a load balancer and, to compare, those of the
// servers behind it ([Target]); out comes a [probe.PageLoad]. [Run] looks at the page
// once: what the document references (scripts, styles, icons, images), and what its
// styles do. Simulated users then load all of it over and over, more and more of them
// (1, 2, 4, 8 …), until throughput stops growing; where it stops growing is what package
// verdict makes of it.
//
//	load, err := pageload.Run(ctx, pageload.Options{
//		Targets: []pageload.Target{
//			{Name: "balancer", URL: "http://10.0.0.1/"},
//			{Name: "web-1", URL: "http://10.0.0.2:8080/"},
//			{Name: "web-2", URL: "http://10.0.0.3:8080/"},
//		},
//		MaxUsers: 64, Step: 5 * time.Second,
//	}, progress)
//
// A user has a browser's manners: an empty cache and new connections for each page, at
// most six to a host, kept alive, or one with HTTP/2 where the server speaks that over
// TLS; gzip, which is counted as it was sent. What a user does not do is to run scripts.
// Errors are counted and never tried again.
//
// The other side is here as well: [Page] is a page such as that of the published story,
// with a script of 200 kB as compressed, and [Serve] serves it.
//
//	l, err := net.Listen("tcp", "10.0.0.2:8080")
//	page, err := pageload.Page(pageload.PageOptions{Name: "web-1"})
//	err = pageload.Serve(ctx, l, page)
//
// Start reading at [Run]; page.go, serve.go are the side that serves.
package pageload

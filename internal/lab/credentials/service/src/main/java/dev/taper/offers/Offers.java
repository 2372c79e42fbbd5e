package dev.taper.offers;

import com.amazonaws.DefaultRequest;
import com.amazonaws.auth.AWS4Signer;
import com.amazonaws.auth.AWSCredentialsProvider;
import com.amazonaws.auth.InstanceProfileCredentialsProvider;
import com.amazonaws.http.HttpMethodName;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.security.Security;
import java.util.Map;
import java.util.concurrent.Executors;

/**
 * A service as so many are: it answers from a search engine that wants signed requests.
 *
 * <p>All that is special about it is what it leaves to the SDK: when to fetch credentials.
 *
 * <p>Usage: {@code Offers PORT SEARCH-URL}
 */
public final class Offers {
  private static final String QUERY = "{\"query\":{\"match\":{\"title\":\"bicycle\"}}}";

  // Fetches in the request that finds its credentials too old.
  private final AWSCredentialsProvider credentials = new InstanceProfileCredentialsProvider(false);
  private final AWS4Signer signer = new AWS4Signer();
  private final URI search;

  private Offers(URI search) {
    this.search = search;
    signer.setServiceName("es");
    signer.setRegionName("eu-west-1");
  }

  public static void main(String[] args) throws IOException {
    Security.setProperty("networkaddress.cache.ttl", "10");
    Offers offers = new Offers(URI.create(args[1]));
    HttpServer server = HttpServer.create(new InetSocketAddress(Integer.parseInt(args[0])), 128);
    server.createContext("/healthz", exchange -> answer(exchange, 200, "ok".getBytes(StandardCharsets.UTF_8)));
    server.createContext("/v1/", offers::handle);
    server.setExecutor(Executors.newFixedThreadPool(32));
    server.start();
  }

  private void handle(HttpExchange exchange) throws IOException {
    try {
      answer(exchange, 200, search());
    } catch (IOException | RuntimeException e) {
      // The message may hold what must not be shown; its kind says enough.
      answer(exchange, 502, e.getClass().getName().getBytes(StandardCharsets.UTF_8));
    }
  }

  private byte[] search() throws IOException {
    byte[] query = QUERY.getBytes(StandardCharsets.UTF_8);
    HttpURLConnection connection = (HttpURLConnection) new URL(search + "/offers/_search").openConnection();
    connection.setConnectTimeout(5_000);
    connection.setReadTimeout(10_000);
    connection.setRequestMethod("POST");
    connection.setDoOutput(true);
    connection.setFixedLengthStreamingMode(query.length);
    signature(query).forEach(connection::setRequestProperty);
    try (OutputStream body = connection.getOutputStream()) {
      body.write(query);
    }
    // Read to its end, so that the connection can be used again.
    try (InputStream hits = connection.getInputStream()) {
      return hits.readAllBytes();
    }
  }

  private Map<String, String> signature(byte[] query) {
    DefaultRequest<Void> request = new DefaultRequest<>("es");
    request.setHttpMethod(HttpMethodName.POST);
    request.setEndpoint(search);
    request.setResourcePath("/offers/_search");
    request.setContent(new ByteArrayInputStream(query));
    signer.sign(request, credentials.getCredentials());
    Map<String, String> headers = request.getHeaders();
    headers.remove("Host"); // the client sets it
    return headers;
  }

  private static void answer(HttpExchange exchange, int status, byte[] body) throws IOException {
    exchange.getRequestBody().readAllBytes();
    exchange.sendResponseHeaders(status, body.length);
    try (OutputStream out = exchange.getResponseBody()) {
      out.write(body);
    }
  }
}

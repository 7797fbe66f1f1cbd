-- What are sales, returns and profit of a month by store, call center and web page, and of all?
WITH month AS (
  SELECT d_date_sk AS date_sk
  FROM date_dim
  WHERE d_date BETWEEN DATE'2000-08-01' AND DATE'2000-08-31'
),
sold AS (
  SELECT
    'in stores' AS channel,
    s_store_sk AS place_sk,
    sum(ss_ext_sales_price) AS sales,
    sum(ss_net_profit) AS profit
  FROM store_sales
  JOIN month ON date_sk = ss_sold_date_sk
  JOIN store ON s_store_sk = ss_store_sk
  GROUP BY s_store_sk
  UNION ALL
  SELECT
    'by catalog', cs_call_center_sk, sum(cs_ext_sales_price), sum(cs_net_profit)
  FROM catalog_sales
  JOIN month ON date_sk = cs_sold_date_sk
  WHERE cs_call_center_sk IS NOT NULL
  GROUP BY cs_call_center_sk
  UNION ALL
  SELECT 'on the web', wp_web_page_sk, sum(ws_ext_sales_price), sum(ws_net_profit)
  FROM web_sales
  JOIN month ON date_sk = ws_sold_date_sk
  JOIN web_page ON wp_web_page_sk = ws_web_page_sk
  GROUP BY wp_web_page_sk
),
returned AS (
  SELECT
    'in stores' AS channel,
    s_store_sk AS place_sk,
    sum(sr_return_amt) AS amount,
    sum(sr_net_loss) AS loss
  FROM store_returns
  JOIN month ON date_sk = sr_returned_date_sk
  JOIN store ON s_store_sk = sr_store_sk
  GROUP BY s_store_sk
  UNION ALL
  SELECT 'by catalog', cr_call_center_sk, sum(cr_return_amount), sum(cr_net_loss)
  FROM catalog_returns
  JOIN month ON date_sk = cr_returned_date_sk
  WHERE cr_call_center_sk IS NOT NULL
  GROUP BY cr_call_center_sk
  UNION ALL
  SELECT 'on the web', wp_web_page_sk, sum(wr_return_amt), sum(wr_net_loss)
  FROM web_returns
  JOIN month ON date_sk = wr_returned_date_sk
  JOIN web_page ON wp_web_page_sk = wr_web_page_sk
  GROUP BY wp_web_page_sk
)
SELECT
  channel,
  place_sk,
  sum(sales) AS total_sales,
  sum(coalesce(amount, 0)) AS total_returned,
  sum(profit - coalesce(loss, 0)) AS total_profit
FROM sold
LEFT JOIN returned USING (channel, place_sk)
GROUP BY ROLLUP (channel, place_sk)
ORDER BY channel, place_sk, total_sales
LIMIT 100
